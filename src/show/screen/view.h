/*
 * view.h - draws the model into cells: the verdict, the chart, the table, the panes over them.
 *
 * Works at every size; below TIDE_VIEW_COLUMNS x TIDE_VIEW_ROWS it says so in one line. Sets the model's
 * page_rows.
 */
#ifndef TIDE_VIEW_H
#define TIDE_VIEW_H

#include "show/screen/view_model.h"
#include "term/cells.h"

enum { TIDE_VIEW_COLUMNS = 50, TIDE_VIEW_ROWS = 14 };

/* What is on the screen beside the model. All texts are escaped, "" where there is nothing to say; borrowed.
 */
struct tide_view_info {
    const char *recording;    /* file name */
    const char *sentence;     /* the verdict so far */
    const char *brief;        /* one short line: trend and limit */
    const char *verdict_text; /* all of it, in lines */
    const char *log_text;     /* last lines of the program's output */
    const char *message;      /* what just happened; shown in place of the help line */
    enum tide_style mood;     /* of the sentence */
};

/* What becomes of the program, over whatever the cells show. */
void tide_view_question(struct tide_cells *cells);

void tide_view_draw(struct tide_cells *cells, struct tide_model *model, const struct tide_view_info *info);

/* How a verdict looks. */
enum tide_style tide_verdict_style(const struct tide_verdict *verdict);

/* The process table (process_table.c): a heading and rows - 1 rows of the model, from line `top` on. Keeps
 * the chosen row in sight. */
void tide_table_draw(struct tide_cells *cells, struct tide_model *model, int top, int rows);

#endif
