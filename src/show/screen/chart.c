/*
 * chart.c - the chart of one row: its floor is solid, spikes above it are dots.
 */
#include "show/screen/view.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/text.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

enum {
    LABEL_COLUMNS = 9, /* "1023 MiB " before the axis */
    EIGHTHS = 8,
    CHART_BYTES = 16 << 20,
    REACH_PARTS = 20, /* rises shorter than 1/20 of the run are drawn as spikes */
};

static const uint32_t blocks[] = {' ', 0x2581, 0x2582, 0x2583, 0x2584, 0x2585, 0x2586, 0x2587, 0x2588};
static const uint32_t dots[] = {' ', 0x28c0, 0x28c0, 0x28e4, 0x28e4, 0x28f6, 0x28f6, 0x28ff, 0x28ff};
static const char ascii_blocks[] = " ..==###", ascii_dots[] = " ..'':::", ascii_spark[] = "..:-=+*#@";

/* The columns of the chosen row, in an arena. */
struct chart {
    struct tide_bin *bins; /* some beyond both edges, so that the floor is right there too */
    int64_t *floors;
    int64_t *edges;
    int32_t *phases;      /* name of the phase in each shown column, -1: none */
    size_t before, shown; /* the shown columns are bins[before .. before + shown - 1] */
};

/* Returns the column of a moment, which may be outside the window. */
static double column_of(const struct tide_model *model, int64_t t_ns, size_t columns)
{
    double span = model->window_to - model->window_from;
    return span > 0 ? (tide_model_x(model, t_ns) - model->window_from) / span * (double)columns : 0;
}

/* Marks the free columns of each phase. Inner phases end first and come first; outer ones get the rest. */
static void fill_phases(struct chart *chart, const struct tide_model *model)
{
    const struct tide_phases *phases = &model->phases;
    for (size_t c = 0; c < chart->shown; c++)
        chart->phases[c] = -1;
    for (size_t i = 0; i < phases->count; i++) {
        const struct tide_phase *phase = &phases->all[phases->by_end[i]];
        int64_t to_ns = phase->to_ns < model->end_ns || phase->ended ? phase->to_ns : model->end_ns;
        double from = floor(column_of(model, phase->from_ns, chart->shown)),
               to = floor(column_of(model, to_ns, chart->shown));
        if (to < 0 || from >= (double)chart->shown)
            continue;
        size_t last = to < (double)chart->shown ? (size_t)to : chart->shown - 1;
        for (size_t c = from > 0 ? (size_t)from : 0; c <= last; c++)
            if (chart->phases[c] < 0)
                chart->phases[c] = phase->name;
    }
}

/* Fills `shown` columns in the window and some beyond both ends. */
static int fill(struct chart *chart, struct tide_model *model, size_t shown, struct tide_arena *arena)
{
    const struct tide_row *row = &model->rows[model->chosen];
    double first, last, span = model->window_to - model->window_from;
    tide_model_extent(model, &first, &last);
    double column = span / (double)shown;
    double reach = column > 0 ? ceil((last - first) / REACH_PARTS / column) : 3;
    size_t beyond = reach < 3 ? 3 : reach > 4 * (double)shown ? 4 * shown : (size_t)reach;
    double room_left = column > 0 ? floor((model->window_from - first) / column + 1e-6) : 0;
    double room_right = column > 0 ? floor((last - model->window_to) / column + 1e-6) : 0;
    size_t before = room_left < (double)beyond ? (size_t)fmax(0, room_left) : beyond;
    size_t after = room_right < (double)beyond ? (size_t)fmax(0, room_right) : beyond;
    size_t count = before + shown + after;
    chart->bins = tide_arena_take(arena, count, sizeof *chart->bins);
    chart->floors = tide_arena_take(arena, count, sizeof *chart->floors);
    chart->edges = tide_arena_take(arena, count + 1, sizeof *chart->edges);
    chart->phases = tide_arena_take(arena, shown, sizeof *chart->phases);
    if (!chart->bins || !chart->floors || !chart->edges || !chart->phases)
        return -1;
    chart->before = before;
    chart->shown = shown;
    tide_model_edges(model, model->window_from - (double)before * column,
                     model->window_to + (double)after * column, count, chart->edges);
    struct tide_strided series = tide_model_series(model, row);
    tide_bins_fill(&series, chart->edges, count, chart->bins);
    if (tide_bins_floor(chart->bins, count, beyond, chart->floors))
        return -1;
    fill_phases(chart, model);
    return 0;
}

struct scale {
    double low, high, step; /* bytes; step between labels */
    double limit;           /* NAN: not in the chart */
};

/* Returns a power of two, so that labels are round in units of 1024. */
static double nice_step(double rough)
{
    double step = 1;
    while (step < rough && step < 0x1p60)
        step *= 2;
    return step;
}

/* True if the chart starts at zero: always, unless that would hide what the row does. */
static bool starts_at_zero(const struct tide_model *model, const struct tide_row *row, double low,
                           double high)
{
    double range = high - low;
    if (model->from_zero || range >= 0.3 * high)
        return true;
    bool moves = row->judged && row->judged->verdict.kind != TIDE_FLAT;
    return range < (moves ? 0.001 : 0.02) * high;
}

static bool find_scale(const struct chart *chart, const struct tide_model *model, int height,
                       struct scale *ret_scale)
{
    double low = INFINITY, high = 0;
    for (size_t c = 0; c < chart->shown; c++) {
        const struct tide_bin *bin = &chart->bins[chart->before + c];
        if (bin->low < 0)
            continue;
        low = fmin(low, (double)chart->floors[chart->before + c]);
        high = fmax(high, (double)bin->high);
    }
    if (!isfinite(low))
        return false;
    const struct tide_row *row = &model->rows[model->chosen];
    double limit = row->kind == TIDE_ROW_TREE && model->assessment ? model->assessment->limit_bytes : NAN;
    if (starts_at_zero(model, row, low, high))
        low = 0;
    if (limit > high && limit <= high * 1.3)
        high = limit;
    if (high <= low)
        high = low + 1;
    double step = nice_step((high - low) / fmax(2, (height + 1) / 2));
    ret_scale->low = floor(low / step) * step;
    ret_scale->high = high + 0.02 * (high - ret_scale->low);
    ret_scale->step = step;
    ret_scale->limit = limit <= ret_scale->high ? limit : NAN;
    return true;
}

/* Returns the height of a value in eighths of a line, at least one. */
static int eighths(const struct scale *scale, int height, double bytes)
{
    double share = (bytes - scale->low) / (scale->high - scale->low);
    int value = (int)lround(share * height * EIGHTHS);
    return value < 1 ? 1 : value > height * EIGHTHS ? height * EIGHTHS : value;
}

static uint32_t glyph(bool ascii, bool solid, int part)
{
    TIDE_CHECK(part, <=, EIGHTHS);
    if (ascii)
        return (uint32_t)(solid ? ascii_blocks : ascii_dots)[part < 7 ? part : 7];
    return (solid ? blocks : dots)[part];
}

static void draw_column(const struct chart *chart, const struct scale *scale, struct tide_cells *cells,
                        int top, int height, int column, size_t c)
{
    const struct tide_bin *bin = &chart->bins[chart->before + c];
    if (bin->low < 0)
        return;
    int64_t floor_bytes = chart->floors[chart->before + c], high = bin->high;
    bool stays = c + 1 < chart->shown && high <= chart->floors[chart->before + c + 1];
    if (stays)
        high = floor_bytes; /* not a spike: the floor rose within this column */
    int floor_at = eighths(scale, height, (double)floor_bytes);
    int high_at = eighths(scale, height, (double)high);
    for (int line = 0; line < height; line++) {
        int solid = floor_at - line * EIGHTHS, light = high_at - line * EIGHTHS;
        if (solid > 0)
            tide_cells_rune(cells, top + height - 1 - line, column, TIDE_STYLE_FLOOR,
                            glyph(cells->ascii, true, solid < EIGHTHS ? solid : EIGHTHS));
        else if (light > 0)
            tide_cells_rune(cells, top + height - 1 - line, column, TIDE_STYLE_SPIKE,
                            glyph(cells->ascii, false, light < EIGHTHS ? light : EIGHTHS));
    }
}

/* Formats a size with enough digits to tell two labels apart, in at most 8 columns. */
static char *label_text(double value, double step, char out[static TIDE_UNITS_TEXT])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    double size = 1;
    while (value / size >= 1000 && unit < 6 && step / size / 1024 >= 0.01) {
        size *= 1024;
        unit++;
    }
    int digits = unit == 0 || value / size >= 100 ? 0 : step / size >= 0.1 ? 1 : 2;
    snprintf(out, TIDE_UNITS_TEXT, "%.*f %s", digits, value / size, names[unit]);
    return out;
}

static void draw_scale(const struct scale *scale, struct tide_cells *cells, int top, int height)
{
    char text[TIDE_UNITS_TEXT];
    int used = height + 1;
    for (int line = 0; line < height; line++)
        tide_cells_rune(cells, top + line, LABEL_COLUMNS, TIDE_STYLE_DIM, cells->ascii ? '|' : 0x2502);
    for (double value = scale->low; value <= scale->high; value += scale->step) {
        int line = (int)((value - scale->low) / (scale->high - scale->low) * height + 1e-6);
        if (line >= height)
            line = height - 1;
        if (line == used)
            continue;
        used = line;
        int row = top + height - 1 - line;
        tide_cells_right(cells, row, 0, LABEL_COLUMNS - 1, TIDE_STYLE_DIM,
                         label_text(value, scale->step, text));
        tide_cells_rune(cells, row, LABEL_COLUMNS, TIDE_STYLE_DIM, cells->ascii ? '+' : 0x2524);
    }
}

static void draw_limit(const struct scale *scale, struct tide_cells *cells, int top, int height, int columns)
{
    if (!isfinite(scale->limit))
        return;
    int line = (eighths(scale, height, scale->limit) - 1) / EIGHTHS, row = top + height - 1 - line;
    for (int c = 0; c < columns; c++)
        if (cells->cells[(size_t)row * (size_t)cells->columns + (size_t)(LABEL_COLUMNS + 1 + c)].rune == ' ')
            tide_cells_rune(cells, row, LABEL_COLUMNS + 1 + c, TIDE_STYLE_LIMIT, cells->ascii ? '-' : 0x2504);
    tide_cells_text(cells, row, LABEL_COLUMNS + 2, 7, TIDE_STYLE_LIMIT, " limit ");
}

static void x_text(const struct tide_model *model, double x, bool with_unit, char out[static 48])
{
    if (tide_model_steps_shown(model))
        snprintf(out, 48, "%s%s", with_unit ? "step " : "", TIDE_COUNT(x));
    else if (model->window_to - model->window_from < 10)
        snprintf(out, 48, "%.2f s", x);
    else
        snprintf(out, 48, "%lld:%02d:%02d", (long long)(x / 3600), (int)fmod(x / 60, 60), (int)fmod(x, 60));
}

static void draw_axis(const struct tide_model *model, struct tide_cells *cells, int row, int columns)
{
    int left = LABEL_COLUMNS + 1;
    tide_cells_rune(cells, row, LABEL_COLUMNS, TIDE_STYLE_DIM, cells->ascii ? '+' : 0x2514);
    for (int c = 0; c < columns; c++)
        tide_cells_rune(cells, row, left + c, TIDE_STYLE_DIM, cells->ascii ? '-' : 0x2500);
    int parts = columns >= 60 ? 4 : 2;
    for (int i = 0; i <= parts; i++) {
        char text[48];
        double x = model->window_from + (model->window_to - model->window_from) * i / parts;
        x_text(model, x, i == 0, text);
        int at = left + columns * i / parts, width = (int)tide_text_columns(text, strlen(text));
        at = i == 0 ? left : i == parts ? left + columns - width : at - width / 2;
        tide_cells_text(cells, row + 1, at, width, TIDE_STYLE_DIM, text);
        if (i > 0 && i < parts)
            tide_cells_rune(cells, row, left + columns * i / parts, TIDE_STYLE_DIM,
                            cells->ascii ? '+' : 0x252c);
    }
}

/* Draws epochs on the axis: their numbers where there is room. */
static void draw_epochs(const struct tide_model *model, struct tide_cells *cells, int row, int columns)
{
    int free_from = 0, last = -1;
    for (size_t i = 0; i < model->epoch_count; i++) {
        const struct tide_history_mark *mark = &model->epochs[i];
        double at = column_of(model, mark->t_ns, (size_t)columns);
        int c = at >= 0 && at <= columns ? (int)fmin(at, columns - 1) : -1;
        if (c < 0 || c == last)
            continue;
        last = c;
        char text[32];
        int len = snprintf(text, sizeof text, "e%lld", (long long)mark->number);
        if (c < free_from || c + len > columns)
            continue;
        tide_cells_text(cells, row, LABEL_COLUMNS + 1 + c, len, TIDE_STYLE_PHASE, text);
        free_from = c + len + 2;
    }
}

static void draw_phases(const struct chart *chart, const struct tide_model *model, struct tide_cells *cells,
                        int row)
{
    for (size_t c = 0; c < chart->shown;) {
        size_t end = c + 1;
        int32_t name = chart->phases[c];
        while (end < chart->shown && chart->phases[end] == name)
            end++;
        int left = LABEL_COLUMNS + 1 + (int)c, width = (int)(end - c);
        c = end;
        if (name < 0)
            continue;
        char shown[96];
        for (int k = 0; k < width; k++)
            tide_cells_rune(cells, row, left + k, TIDE_STYLE_PHASE, cells->ascii ? '=' : 0x2550);
        tide_cells_text(cells, row, left, width < 4 ? 1 : width, TIDE_STYLE_PHASE,
                        tide_history_name(model->history, name, shown, sizeof shown));
    }
    tide_cells_right(cells, row, 0, LABEL_COLUMNS - 1, TIDE_STYLE_DIM, "phases");
}

static void draw_cursor(const struct tide_model *model, struct tide_cells *cells, int top, int height,
                        int columns)
{
    if (model->following)
        return;
    int c = (int)fmin(fmax(0, column_of(model, model->cursor_ns, (size_t)columns)), columns - 1);
    int column = LABEL_COLUMNS + 1 + c;
    for (int line = 0; line < height; line++) {
        size_t at = (size_t)(top + line) * (size_t)cells->columns + (size_t)column;
        if (cells->cells[at].rune == ' ')
            tide_cells_rune(cells, top + line, column, TIDE_STYLE_STRONG, cells->ascii ? '|' : 0x2502);
        else
            tide_cells_paint(cells, top + line, column, 1, TIDE_STYLE_CHOSEN);
    }
    tide_cells_rune(cells, top + height, column, TIDE_STYLE_STRONG, cells->ascii ? '^' : 0x25b2);
}

static void draw_filled(const struct chart *chart, const struct tide_model *model, struct tide_cells *cells,
                        int top, int rows)
{
    int columns = (int)chart->shown;
    bool strip = model->phases.count > 0 && rows >= 6;
    int height = rows - 2 - strip;
    struct scale scale;
    if (!find_scale(chart, model, height, &scale)) {
        tide_cells_text(cells, top + height / 2, LABEL_COLUMNS + 3, columns - 4, TIDE_STYLE_DIM,
                        "no samples in this window");
    } else {
        draw_scale(&scale, cells, top, height);
        for (int c = 0; c < columns; c++)
            draw_column(chart, &scale, cells, top, height, LABEL_COLUMNS + 1 + c, (size_t)c);
        draw_limit(&scale, cells, top, height, columns);
        if (scale.low > 0)
            tide_cells_right(cells, top + height + 1, 0, LABEL_COLUMNS - 1, TIDE_STYLE_DIM, "y zoomed");
    }
    draw_axis(model, cells, top + height, columns);
    draw_epochs(model, cells, top + height, columns);
    draw_cursor(model, cells, top, height, columns);
    if (strip)
        draw_phases(chart, model, cells, top + height + 2);
}

void tide_chart_draw(struct tide_cells *cells, struct tide_model *model, int top, int rows)
{
    int columns = cells->columns - LABEL_COLUMNS - 1;
    struct chart chart;
    struct tide_arena arena;
    if (columns < 8 || rows < 5 || top + rows > cells->rows || model->row_count == 0)
        return;
    tide_arena_init(&arena, CHART_BYTES);
    if (!fill(&chart, model, (size_t)columns, &arena))
        draw_filled(&chart, model, cells, top, rows);
    tide_arena_release(&arena);
}

void tide_spark_draw(struct tide_cells *cells, int row, int column, enum tide_style style,
                     const struct tide_bin *bins, int columns)
{
    int64_t levels[TIDE_SPARK_MAX], low = INT64_MAX, high = 0;
    bool floors = false; /* with short-lived workers every column has a moment without any */
    for (int i = 0; i < columns; i++)
        floors |= bins[i].low > 0;
    for (int i = 0; i < columns; i++) {
        levels[i] = floors ? bins[i].low : bins[i].high;
        if (levels[i] < 0)
            continue;
        low = levels[i] < low ? levels[i] : low;
        high = levels[i] > high ? levels[i] : high;
    }
    if (high == 0)
        return;
    /* Covers at least a quarter of the value: noise on a level process must not look like mountains. */
    double base = fmin((double)low, 0.75 * (double)high), range = (double)high - base;
    for (int i = 0; i < columns; i++) {
        if (levels[i] < 0)
            continue;
        int part = 1 + (int)lround(((double)levels[i] - base) / range * (EIGHTHS - 1));
        tide_cells_rune(cells, row, column + i, style,
                        cells->ascii ? (uint32_t)ascii_spark[part] : blocks[part]);
    }
}
