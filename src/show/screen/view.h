/*
 * view.h - draws the model into cells: the verdict, the chart, the table, and panes over them.
 *
 * Works at every size; below TIDE_VIEW_COLUMNS x TIDE_VIEW_ROWS it prints one line saying so. Sets the
 * model's page_rows.
 */
#ifndef TIDE_VIEW_H
#define TIDE_VIEW_H

#include "show/screen/view_model.h"
#include "term/cells.h"

enum { TIDE_VIEW_COLUMNS = 50, TIDE_VIEW_ROWS = 14 };

/* What the screen shows beside the model. All texts are escaped and borrowed; "": nothing to say. */
struct tide_view_info {
    const char *recording;    /* file name */
    const char *sentence;     /* the verdict so far */
    const char *brief;        /* a short line: trend and limit */
    const char *verdict_text; /* the whole verdict, as lines */
    const char *log_text;     /* last lines of the program's output */
    const char *message;      /* what just happened; shown in place of the help line */
    enum tide_style mood;     /* of the sentence */
};

/* Asks, over whatever the cells show, what becomes of the program. */
void tide_view_question(struct tide_cells *cells);

void tide_view_draw(struct tide_cells *cells, struct tide_model *model, const struct tide_view_info *info);

/* Returns the style of a verdict. */
enum tide_style tide_verdict_style(const struct tide_verdict *verdict);

/* Draws the process table (process_table.c): a heading and rows - 1 rows of the model, from line `top` on.
 * Scrolls so that the chosen row is visible. */
void tide_table_draw(struct tide_cells *cells, struct tide_model *model, int top, int rows);

/* Draws the chosen row (chart.c) into `rows` lines from `top`, including axis, labels and phases. */
void tide_chart_draw(struct tide_cells *cells, struct tide_model *model, int top, int rows);

/* Draws a sparkline: the lowest level in each column, so that spikes do not hide growth. At most
 * TIDE_SPARK_MAX columns. */
void tide_spark_draw(struct tide_cells *cells, int row, int column, enum tide_style style,
                     const struct tide_bin *bins, int columns);

#endif
