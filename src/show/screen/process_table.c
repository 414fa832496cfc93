/*
 * process_table.c - the process table of the terminal view: which columns fit, and the rows in them.
 */
#include "show/screen/view.h"
#include "base/units.h"
#include "show/text/verdict_text.h"

#include <inttypes.h>
#include <math.h>

enum { CELL_TEXT = 64, NAME_COLUMNS = 23, SHORT_NAME = 20, WIDE_NAME = 32, INDENT_MAX = 12 };

/* The columns from left to right. */
enum { PID, NAME, RSS, PEAK, TREND, SPARK, FLOOR, PSS, USS, GPU, THREADS, COLUMNS };

/* To make room for a readable name, columns of lower rank are left out first. */
static const struct column {
    const char *title;
    int width, rank;
    size_t offset; /* offset of its number in struct tide_row; 0: none */
} columns[COLUMNS] = {
    [PID] = {"PID", 7, 9, 0},
    [NAME] = {"NAME", 0, 10, 0},
    [RSS] = {"RSS", 8, 10, offsetof(struct tide_row, rss)},
    [PEAK] = {"PEAK", 8, 7, offsetof(struct tide_row, peak)},
    [TREND] = {"FLOOR/STEP", 11, 10, 0},
    [SPARK] = {"OVER TIME", 9, 8, 0},
    [FLOOR] = {"FLOOR", 8, 4, 0},
    [PSS] = {"PSS", 8, 5, offsetof(struct tide_row, pss)},
    [USS] = {"USS", 8, 2, offsetof(struct tide_row, uss)},
    [GPU] = {"GPU", 8, 6, offsetof(struct tide_row, gpu)},
    [THREADS] = {"THR", 4, 3, offsetof(struct tide_row, threads)},
};

/* Returns the number in a cell, or TIDE_UNKNOWN. */
static int64_t number_of(const struct tide_model *model, const struct tide_row *row, int column)
{
    double floor = row->judged ? row->judged->verdict.floor_last : NAN;
    if (column == PID)
        return model->history->processes[row->process - 1].row.pid;
    if (column == FLOOR)
        return floor >= 0 ? (int64_t)floor : TIDE_UNKNOWN;
    return *(const int64_t *)(const void *)((const char *)row + columns[column].offset);
}

static void trend_text(const struct tide_row *row, char out[static CELL_TEXT])
{
    if (!row->judged)
        snprintf(out, CELL_TEXT, "-");
    else if (tide_verdict_grows(&row->judged->verdict))
        snprintf(out, CELL_TEXT, "+%s", TIDE_SIZE(row->judged->verdict.slope));
    else
        snprintf(out, CELL_TEXT, "%s", tide_judged_word(row->judged));
}

static void cell_text(const struct tide_model *model, const struct tide_row *row, int column,
                      char out[static CELL_TEXT])
{
    bool process = row->kind == TIDE_ROW_PROCESS;
    if (column == TREND)
        trend_text(row, out);
    else if (column == PID && !process)
        out[0] = '\0';
    else if (column == RSS && process && row->alive == 0)
        snprintf(out, CELL_TEXT, "ended");
    else if (number_of(model, row, column) < 0 && column != PID)
        snprintf(out, CELL_TEXT, "-");
    else if (column == PID || column == THREADS)
        snprintf(out, CELL_TEXT, "%" PRId64, number_of(model, row, column));
    else
        snprintf(out, CELL_TEXT, "%s", TIDE_SIZE((double)number_of(model, row, column)));
}

enum tide_style tide_verdict_style(const struct tide_verdict *verdict)
{
    if (tide_verdict_grows(verdict))
        return TIDE_STYLE_BAD;
    return verdict->kind == TIDE_FLAT || verdict->kind == TIDE_SPIKES ? TIDE_STYLE_GOOD : TIDE_STYLE_DOUBT;
}

static enum tide_style trend_style(const struct tide_row *row)
{
    if (!row->judged || row->alive == 0)
        return TIDE_STYLE_DIM;
    bool jump = row->judged->verdict.kind == TIDE_JUMP;
    return jump ? TIDE_STYLE_BAD : tide_verdict_style(&row->judged->verdict);
}

/* False for PSS, USS and GPU while no row has a value. */
static bool anybody_knows(const struct tide_model *model, int column)
{
    if (column != PSS && column != USS && column != GPU)
        return true;
    for (size_t i = 0; i < model->row_count; i++)
        if (number_of(model, &model->rows[i], column) >= 0)
            return true;
    return false;
}

/* Sets the widths of the columns, 0 for those left out. The name gets the rest, the sparkline some of it. */
static void lay_out(const struct tide_model *model, int width, int ret_widths[static COLUMNS])
{
    int name = width >= 80 ? NAME_COLUMNS : SHORT_NAME, left = width - name;
    for (int c = 0; c < COLUMNS; c++)
        ret_widths[c] = 0;
    for (int rank = 10; rank > 0; rank--)
        for (int c = 0; c < COLUMNS; c++)
            if (c != NAME && columns[c].rank == rank && left >= columns[c].width + 1 &&
                anybody_knows(model, c)) {
                ret_widths[c] = columns[c].width;
                left -= columns[c].width + 1;
            }
    int spare = left > 0 ? left : 0;
    int longer = ret_widths[SPARK] ? spare / 2 : 0;
    if (longer > TIDE_SPARK_MAX - ret_widths[SPARK])
        longer = TIDE_SPARK_MAX - ret_widths[SPARK];
    ret_widths[SPARK] += longer;
    ret_widths[NAME] = name + spare - longer;
}

static void draw_name(struct tide_cells *cells, const struct tide_model *model, const struct tide_row *row,
                      int line, int at, int width, enum tide_style style)
{
    char name[160];
    int indent = row->kind == TIDE_ROW_TREE ? 0 : 1 + row->depth * (width >= WIDE_NAME ? 2 : 1);
    if (indent > INDENT_MAX)
        indent = INDENT_MAX;
    uint32_t sign = cells->ascii ? (row->folded ? '+' : '-') : row->folded ? 0x25b8 : 0x25be;
    if (row->foldable)
        tide_cells_rune(cells, line, at + indent - 1, style, sign);
    tide_cells_text(cells, line, at + indent + (row->kind != TIDE_ROW_TREE), width - indent - 1, style,
                    tide_model_name(model, row, name, sizeof name));
}

static void draw_row(struct tide_cells *cells, struct tide_model *model, struct tide_row *row,
                     const int widths[static COLUMNS], int line, bool chosen)
{
    enum tide_style plain = row->alive == 0            ? TIDE_STYLE_DIM
                            : tide_row_growth(row) > 0 ? TIDE_STYLE_STRONG
                                                       : TIDE_STYLE_PLAIN;
    struct tide_bin spark[TIDE_SPARK_MAX];
    int at = 0;
    tide_model_spark(model, row, widths[SPARK], spark);
    for (int c = 0; c < COLUMNS; c++) {
        if (widths[c] == 0)
            continue;
        char text[CELL_TEXT];
        if (c == NAME) {
            draw_name(cells, model, row, line, at, widths[c], plain);
        } else if (c == SPARK) {
            tide_spark_draw(cells, line, at, trend_style(row), spark, widths[c]);
        } else {
            cell_text(model, row, c, text);
            tide_cells_right(cells, line, at, widths[c], c == TREND ? trend_style(row) : plain, text);
        }
        at += widths[c] + 1;
    }
    if (chosen)
        tide_cells_paint(cells, line, 0, cells->columns, TIDE_STYLE_CHOSEN);
}

static void draw_heading(struct tide_cells *cells, const struct tide_model *model,
                         const int widths[static COLUMNS], int line)
{
    static const int sorted[] = {
        [TIDE_SORT_TREE] = NAME, [TIDE_SORT_MEMORY] = RSS, [TIDE_SORT_GROWTH] = TREND};
    tide_cells_paint(cells, line, 0, cells->columns, TIDE_STYLE_HEADING);
    int at = 0;
    for (int c = 0; c < COLUMNS; c++) {
        if (widths[c] == 0)
            continue;
        char title[32];
        bool steps =
            !model->assessment || model->assessment->count == 0 || model->assessment->judged[0].x_is_steps;
        const char *text = c == TREND && !steps ? "FLOOR/S" : columns[c].title;
        snprintf(title, sizeof title, "%s%s", text, c == sorted[model->sort] && c != NAME ? "*" : "");
        if (c == NAME)
            tide_cells_text(cells, line, at + 2, widths[c] - 2, TIDE_STYLE_HEADING, title);
        else if (c == SPARK)
            tide_cells_text(cells, line, at, widths[c], TIDE_STYLE_HEADING, title);
        else
            tide_cells_right(cells, line, at, widths[c], TIDE_STYLE_HEADING, title);
        at += widths[c] + 1;
    }
}

void tide_table_draw(struct tide_cells *cells, struct tide_model *model, int top, int rows)
{
    int widths[COLUMNS];
    lay_out(model, cells->columns, widths);
    draw_heading(cells, model, widths, top);
    size_t page = rows > 1 ? (size_t)rows - 1 : 1;
    if (model->chosen < model->top)
        model->top = model->chosen;
    if (model->chosen >= model->top + page)
        model->top = model->chosen - page + 1;
    if (model->top + page > model->row_count)
        model->top = model->row_count > page ? model->row_count - page : 0;
    for (int line = 1; line < rows; line++) {
        size_t at = model->top + (size_t)line - 1;
        if (at >= model->row_count)
            break;
        draw_row(cells, model, &model->rows[at], widths, top + line, at == model->chosen);
    }
}
