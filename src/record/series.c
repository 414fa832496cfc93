/*
 * series.c - from text to a table of numbers, then from the table to series.
 *
 * The text is read once. Each cell becomes a double at once (NAN: missing), so a million rows need 8 bytes
 * per cell and nothing more.
 */
#include "record/series.h"
#include "record/columns.h"
#include "base/buf.h"
#include "base/grow.h"
#include "base/infile.h"
#include "base/text.h"
#include "base/units.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 30, CELL_MOST = 4096, JSON_COLUMNS = 64, OTHERS_MOST = 32 };
#define ARENA_MOST ((size_t)2 << 30)
/* In seconds since 1970: 2001 and 2038. */
#define EPOCH_LEAST 1e9
#define EPOCH_MOST  2.2e9

struct table {
    struct tide_arena *arena;
    const char *names[TIDE_SERIES_COLUMNS]; /* live in the arena */
    size_t columns;
    const char *wanted;                        /* column that the user asked for, or NULL; borrowed */
    bool has_header;                           /* else the names are made up */
    unsigned kinds[TIDE_SERIES_COLUMNS];       /* kinds of its cells: bits 1 << enum tide_cell */
    const char *odd_text[TIDE_SERIES_COLUMNS]; /* the first cell that holds no value; in the arena */
    size_t odd_line[TIDE_SERIES_COLUMNS];
    double *cells; /* rows * stride */
    size_t stride, rows;
    size_t capacity; /* of cells */
};

struct cursor {
    const char *at, *end;
    size_t line;
};

static bool next_line(struct cursor *c, const char **ret_text, size_t *ret_len)
{
    if (c->at >= c->end)
        return false;
    const char *stop = memchr(c->at, '\n', (size_t)(c->end - c->at));
    const char *next = stop ? stop + 1 : c->end;
    if (!stop)
        stop = c->end;
    if (stop > c->at && stop[-1] == '\r')
        stop--;
    *ret_text = c->at;
    *ret_len = (size_t)(stop - c->at);
    c->at = next;
    c->line++;
    return true;
}

static bool is_blank(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && (text[i] == ' ' || text[i] == '\t'))
        i++;
    return i == len || text[i] == '#';
}

static int out_of_memory(struct tide_err *err)
{
    return tide_err_set(err, "the series is too large");
}

static int add_row(struct table *t, double **ret_row, struct tide_err *err)
{
    if (TIDE_GROW(t->cells, t->capacity, (t->rows + 1) * t->stride, ARENA_MOST / sizeof *t->cells))
        return out_of_memory(err);
    double *row = t->cells + t->rows++ * t->stride;
    for (size_t i = 0; i < t->stride; i++)
        row[i] = NAN;
    *ret_row = row;
    return 0;
}

static int add_column(struct table *t, const char *name, size_t len, struct tide_err *err)
{
    if (t->columns == TIDE_SERIES_COLUMNS)
        return tide_err_set(err, "more than %d columns", TIDE_SERIES_COLUMNS);
    t->names[t->columns] = tide_arena_text(t->arena, name, len);
    if (!t->names[t->columns])
        return out_of_memory(err);
    t->columns++;
    return 0;
}

static bool holds(const struct table *t, size_t column, enum tide_cell kind)
{
    return t->kinds[column] & 1u << kind;
}

static void set_odd(struct table *t, size_t column, const char *text, size_t len, size_t line)
{
    if (holds(t, column, TIDE_CELL_TEXT))
        return;
    t->kinds[column] |= 1u << TIDE_CELL_TEXT;
    t->odd_text[column] = tide_arena_text(t->arena, text, len);
    t->odd_line[column] = line;
}

static void set_cell(struct table *t, double *row, size_t column, const char *text, size_t len, size_t line)
{
    double value;
    enum tide_cell kind = tide_column_cell(text, len, &value);
    if (kind == TIDE_CELL_TEXT) {
        set_odd(t, column, text, len, line);
        return;
    }
    row[column] = value;
    t->kinds[column] |= 1u << kind;
}

/* --- delimited ----------------------------------------------------------------------------------------- */

/* Cuts the next field off *at and copies it, without its quotes, into cell (CELL_MOST bytes). -1: an
 * unterminated quote, or a cell that is too long. */
static int next_field(const char **at, const char *end, char delimiter, char *cell, size_t *ret_len)
{
    const char *p = *at;
    size_t len = 0;
    while (p < end && *p == ' ')
        p++;
    if (p < end && *p == '"') {
        for (p++;; p++) {
            if (p == end)
                return -1;
            if (*p == '"') {
                if (p + 1 < end && p[1] == '"')
                    p++;
                else
                    break;
            }
            if (len == CELL_MOST)
                return -1;
            cell[len++] = *p;
        }
        p++;
        while (p < end && *p != delimiter)
            p++;
    } else {
        while (p < end && *p != delimiter) {
            if (len == CELL_MOST)
                return -1;
            cell[len++] = *p++;
        }
    }
    while (len && (cell[len - 1] == ' ' || cell[len - 1] == '\t'))
        len--;
    if (delimiter == ' ')
        while (p < end && p[0] == ' ' && p + 1 < end && p[1] == ' ')
            p++;
    *at = p < end ? p + 1 : NULL; /* NULL: that was the last field */
    *ret_len = len;
    return 0;
}

static char delimiter_of(const char *line, size_t len)
{
    static const char candidates[] = {'\t', ',', ';', ' '};
    for (size_t i = 0; i < sizeof candidates; i++)
        if (memchr(line, candidates[i], len))
            return candidates[i];
    return ',';
}

/* True if a number is a time since 1970 rather than a step. */
static bool is_epoch(double value)
{
    double seconds = value * tide_column_seconds_scale("", value);
    return seconds >= EPOCH_LEAST && seconds <= EPOCH_MOST;
}

static int parse_header(struct table *t, const char *line, size_t len, char delimiter, struct tide_err *err)
{
    char cell[CELL_MOST];
    size_t cell_len, numbers = 0;
    bool is_time = false; /* the first column, where there is no header */
    for (const char *at = line; at;) {
        if (next_field(&at, line + len, delimiter, cell, &cell_len))
            return tide_err_set(err, "line 1: an unterminated quote, or a field of over %d bytes", CELL_MOST);
        double value;
        enum tide_cell kind = tide_column_cell(cell, cell_len, &value);
        numbers += cell_len > 0 && kind != TIDE_CELL_TEXT;
        if (t->columns == 0)
            is_time = kind == TIDE_CELL_TIME || (kind == TIDE_CELL_NUMBER && is_epoch(value));
        if (add_column(t, cell, cell_len, err))
            return -1;
    }
    t->stride = t->columns;
    t->has_header = numbers == 0;
    if (t->has_header)
        return 0;
    if (t->columns > 2)
        return tide_err_set(err, "there are %zu columns and no header row", t->columns),
               tide_err_hint(err, "put a first line like 'step,rss_mb' above the numbers");
    t->names[t->columns - 1] = "memory";
    if (t->columns == 2)
        t->names[0] = is_time ? "time" : "step";
    return 0;
}

static int parse_row(struct table *t, const char *line, size_t len, char delimiter, size_t number,
                     struct tide_err *err)
{
    char cell[CELL_MOST];
    size_t column = 0, cell_len;
    double *row;
    if (add_row(t, &row, err))
        return -1;
    for (const char *at = line; at; column++) {
        if (next_field(&at, line + len, delimiter, cell, &cell_len))
            return tide_err_set(err, "line %zu: an unterminated quote, or a field of over %d bytes", number,
                                CELL_MOST);
        if (column >= t->columns)
            return tide_err_set(err, "line %zu has more fields than the %zu columns of the header", number,
                                t->columns);
        set_cell(t, row, column, cell, cell_len, number);
    }
    if (column < t->columns)
        return tide_err_set(err, "line %zu has %zu fields where the header has %zu", number, column,
                            t->columns);
    return 0;
}

static int parse_delimited(struct table *t, struct cursor c, struct tide_err *err)
{
    const char *line;
    size_t len;
    char delimiter = 0;
    while (next_line(&c, &line, &len)) {
        if (len > TIDE_SERIES_LINE)
            return tide_err_set(err, "line %zu is longer than %d bytes", c.line, TIDE_SERIES_LINE);
        if (memchr(line, '\0', len))
            return tide_err_set(err, "line %zu holds a NUL byte: this is not a text file", c.line);
        if (is_blank(line, len))
            continue;
        while (line[len - 1] == ' ') /* no field follows the last space */
            len--;
        if (!delimiter) {
            delimiter = delimiter_of(line, len);
            if (parse_header(t, line, len, delimiter, err))
                return -1;
            if (t->has_header)
                continue;
        }
        if (parse_row(t, line, len, delimiter, c.line, err))
            return -1;
    }
    return 0;
}

/* --- JSONL --------------------------------------------------------------------------------------------- */

static size_t column_named(const struct table *t, const char *name)
{
    size_t i = 0;
    while (i < t->columns && strcmp(t->names[i], name))
        i++;
    return i;
}

static int parse_object(struct table *t, json_t *object, size_t line, struct tide_err *err)
{
    double *row;
    if (add_row(t, &row, err))
        return -1;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t column = column_named(t, key);
        if (column == t->columns) {
            bool other = tide_column_role(key) == TIDE_COLUMN_OTHER && (!t->wanted || strcmp(key, t->wanted));
            if (t->columns == t->stride || (other && t->columns >= OTHERS_MOST))
                continue; /* a log may have hundreds of keys; skip those of no use here */
            if (add_column(t, key, strlen(key), err))
                return -1;
        }
        if (json_is_number(value)) {
            row[column] = json_number_value(value);
            t->kinds[column] |= 1u << TIDE_CELL_NUMBER;
        } else if (json_is_string(value))
            set_cell(t, row, column, json_string_value(value), json_string_length(value), line);
        else if (!json_is_null(value))
            set_odd(t, column, "", 0, line);
    }
    return 0;
}

static int parse_jsonl(struct table *t, struct cursor c, struct tide_err *err)
{
    const char *line;
    size_t len;
    t->stride = JSON_COLUMNS;
    t->has_header = true;
    while (next_line(&c, &line, &len)) {
        if (is_blank(line, len))
            continue;
        if (len > TIDE_SERIES_LINE)
            return tide_err_set(err, "line %zu is longer than %d bytes", c.line, TIDE_SERIES_LINE);
        json_error_t why;
        json_t *object = json_loadb(line, len, 0, &why);
        if (!object || !json_is_object(object)) {
            json_decref(object);
            return tide_err_set(err, "line %zu is not a JSON object", c.line);
        }
        int bad = parse_object(t, object, c.line, err);
        json_decref(object);
        if (bad)
            return -1;
    }
    return 0;
}

/* True if the text starts with '[' and '{', as no table does. */
static bool is_json_array(const char *text, size_t len)
{
    size_t i = 1;
    while (i < len && strchr(" \t\r\n", text[i]))
        i++;
    return i < len && text[0] == '[' && text[i] == '{';
}

static int refuse_array(struct tide_err *err)
{
    tide_err_set(err, "this is a JSON array, not one object per line");
    return tide_err_hint(err, "jq -c '.[]' FILE | tidemark judge -");
}

/* --- series -------------------------------------------------------------------------------------------- */

struct picked {
    size_t axis, time, pid; /* column, or SIZE_MAX */
    size_t value[TIDE_SERIES_COLUMNS];
    double scale[TIDE_SERIES_COLUMNS];
    size_t values;
};

static int list_columns(const struct table *t, struct tide_err *err)
{
    char list[160] = "";
    for (size_t i = 0; i < t->columns && strlen(list) < 110; i++)
        tide_text_add(list, sizeof list, "%s%s", i ? ", " : "", TIDE_SHOWN(t->names[i], 48));
    return tide_err_hint(err, "choose one with --column and its unit with --unit; columns: %s", list);
}

static int refuse_text(const struct table *t, size_t column, const char *what, struct tide_err *err)
{
    const char *odd = t->odd_text[column] ? t->odd_text[column] : "";
    const char *name = TIDE_SHOWN(t->names[column], 64);
    const char *cell = TIDE_SHOWN(odd, 32);
    if (!holds(t, column, TIDE_CELL_TEXT))
        return tide_err_set(err, "column '%s' holds sizes of memory, where %s was expected", name, what);
    if (!*odd)
        return tide_err_set(err, "line %zu: column '%s' holds something that is not %s", t->odd_line[column],
                            name, what);
    tide_err_set(err, "line %zu: column '%s' holds '%s', which is not %s", t->odd_line[column], name, cell,
                 what);
    return strchr(odd, ',') ? tide_err_hint(err, "numbers look like 1234.5, without any comma") : -1;
}

/* Bytes per number of a column: from its cells if they have units, else --unit, else its name. NAN:
 * unknown. */
static double scale_of(const struct table *t, size_t column, const struct tide_series_options *options)
{
    return holds(t, column, TIDE_CELL_SIZE) ? 1
           : options->unit                  ? tide_size_unit(options->unit)
                                            : tide_column_bytes_scale(t->names[column]);
}

static int pick_value(const struct table *t, size_t column, const struct tide_series_options *options,
                      struct picked *p, struct tide_err *err)
{
    const char *shown = TIDE_SHOWN(t->names[column], 64);
    double scale = scale_of(t, column, options);
    if (isnan(scale) && options->unit) {
        tide_err_set(err, "'%s' is not a unit of memory", TIDE_SHOWN(options->unit, 64));
        return tide_err_hint(err, "choose one of B, KB, MB, GB, KiB, MiB, GiB");
    }
    if (holds(t, column, TIDE_CELL_TEXT))
        return refuse_text(t, column, "a number", err);
    if (holds(t, column, TIDE_CELL_SIZE) && holds(t, column, TIDE_CELL_NUMBER))
        return tide_err_set(err, "in column '%s' some numbers have a unit and some have none", shown);
    if (isnan(scale)) {
        tide_err_set(err, "column '%s' has no unit", shown);
        return tide_err_hint(
            err, "give --unit MB (or B, KB, GB, KiB, MiB, GiB), or rename the column to '%.24s_mb'", shown);
    }
    p->value[p->values] = column;
    p->scale[p->values++] = scale;
    return 0;
}

/* True if a column can be an axis: steps are numbers, times are numbers or dates. */
static bool is_usable(const struct table *t, size_t column)
{
    return !holds(t, column, TIDE_CELL_TEXT) && !holds(t, column, TIDE_CELL_SIZE);
}

/* Picks the columns of steps, time and PIDs. If there is an axis but it cannot be read, refuses it rather
 * than silently using the row number. */
static int pick_axes(const struct table *t, struct picked *p, struct tide_err *err)
{
    size_t unreadable = SIZE_MAX;
    for (size_t i = 0; i < t->columns; i++) {
        enum tide_column_role role = tide_column_role(t->names[i]);
        size_t *slot = role == TIDE_COLUMN_STEP   ? &p->axis
                       : role == TIDE_COLUMN_TIME ? &p->time
                       : role == TIDE_COLUMN_PID  ? &p->pid
                                                  : NULL;
        if (slot && *slot == SIZE_MAX && is_usable(t, i))
            *slot = i;
        else if (slot && slot != &p->pid && unreadable == SIZE_MAX && t->has_header)
            unreadable = i;
    }
    if (p->axis != SIZE_MAX || p->time != SIZE_MAX || unreadable == SIZE_MAX)
        return 0;
    return refuse_text(t, unreadable,
                       tide_column_role(t->names[unreadable]) == TIDE_COLUMN_STEP ? "a number" : "a time",
                       err);
}

static int pick_columns(const struct table *t, const struct tide_series_options *options, struct picked *p,
                        struct tide_err *err)
{
    *p = (struct picked){.axis = SIZE_MAX, .time = SIZE_MAX, .pid = SIZE_MAX};
    size_t unsure = SIZE_MAX;
    if (pick_axes(t, p, err))
        return -1;
    for (size_t i = 0; i < t->columns && !options->column; i++) {
        if (tide_column_role(t->names[i]) != TIDE_COLUMN_MEMORY)
            continue;
        if (!options->unit && isnan(scale_of(t, i, options)))
            unsure = i;
        else if (pick_value(t, i, options, p, err))
            return -1;
    }
    if (options->column) {
        size_t column = column_named(t, options->column);
        if (column == t->columns)
            return tide_err_set(err, "there is no column '%s'", TIDE_SHOWN(options->column, 64)),
                   list_columns(t, err);
        return pick_value(t, column, options, p, err);
    }
    if (p->values)
        return 0;
    if (unsure != SIZE_MAX)
        return pick_value(t, unsure, options, p, err);
    return tide_err_set(err, "no column looks like memory"), list_columns(t, err);
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Makes the axis go forward, as series.h says, with the median stride as the usual one. */
static int straighten(double *x, size_t n, bool is_steps)
{
    size_t forward = 0;
    double *strides = malloc((n ? n : 1) * sizeof *strides);
    if (!strides)
        return -1;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[i - 1])
            strides[forward++] = x[i] - x[i - 1];
    qsort(strides, forward, sizeof *strides, by_size);
    double usual = forward ? strides[forward / 2] : 1, shift = 0, before = n ? x[0] : 0;
    free(strides);
    for (size_t i = 1; i < n; i++) {
        double raw = x[i], stride = raw - before;
        bool back = stride < 0, leap = !is_steps && stride > 1000 * usual;
        if (back || leap)
            shift += usual - stride;
        before = raw;
        x[i] = raw + shift;
    }
    return 0;
}

static double time_scale(const struct table *t, size_t column)
{
    return holds(t, column, TIDE_CELL_TIME) ? 1
                                            : tide_column_seconds_scale(t->names[column], t->cells[column]);
}

/* Returns 1 if a column rises from row to row, -1 if it falls, 0 if it does neither or there is no such
 * column. One stride in ten may go the other way, because steps start over and clocks pass midnight. */
static int direction(const struct table *t, size_t column, const size_t *rows, size_t row_count)
{
    size_t up = 0, down = 0;
    double before = NAN;
    for (size_t i = 0; column != SIZE_MAX && i < row_count; i++) {
        double now = t->cells[rows[i] * t->stride + column];
        up += now > before;
        down += now < before;
        before = isnan(now) ? before : now;
    }
    return (up > 9 * down) - (down > 9 * up);
}

/* True if the rows are in the reverse order of time. A countdown of steps beside a clock that rises is not.
 */
static bool is_newest_first(const struct table *t, const struct picked *p, const size_t *rows,
                            size_t row_count)
{
    int clock = direction(t, p->time, rows, row_count);
    return clock ? clock < 0 : direction(t, p->axis, rows, row_count) < 0;
}

/* One series: the rows of one pid (or all), one value column. */
static int make_series(const struct table *t, const struct picked *p, const size_t *rows, size_t row_count,
                       size_t value, struct tide_series_set *set, struct tide_err *err)
{
    struct tide_series *s = &set->series[set->count];
    s->x = tide_arena_take(&set->arena, row_count, sizeof(double));
    s->bytes = tide_arena_take(&set->arena, row_count, sizeof(double));
    char name[160];
    const char *column = t->names[p->value[value]];
    double pid = p->pid != SIZE_MAX ? t->cells[rows[0] * t->stride + p->pid] : NAN;
    if (p->pid != SIZE_MAX && isnan(pid))
        snprintf(name, sizeof name, "%.100s (rows without a PID)", column);
    else if (p->pid != SIZE_MAX)
        snprintf(name, sizeof name, "%.100s[%.0f]", column, pid);
    else
        snprintf(name, sizeof name, "%.150s", column);
    s->name = tide_arena_text(&set->arena, name, strlen(name));
    if (!s->x || !s->bytes || !s->name)
        return out_of_memory(err);
    size_t axis = p->axis != SIZE_MAX ? p->axis : p->time;
    double scale = p->axis == SIZE_MAX && p->time != SIZE_MAX ? time_scale(t, p->time) : 1;
    bool newest_first = is_newest_first(t, p, rows, row_count);
    for (size_t i = 0; i < row_count; i++) {
        size_t at = rows[newest_first ? row_count - 1 - i : i];
        const double *row = t->cells + at * t->stride;
        double x = axis == SIZE_MAX ? (double)at : row[axis] * scale,
               bytes = row[p->value[value]] * p->scale[value];
        if (!isfinite(x) || !isfinite(bytes))
            continue;
        if (bytes < 0 || bytes > (double)TIDE_LARGEST)
            return tide_err_set(err, "row %zu: %g bytes is not a possible size", at + 1, bytes);
        s->x[s->count] = x;
        s->bytes[s->count++] = bytes;
    }
    if (straighten(s->x, s->count, set->x_is_steps))
        return out_of_memory(err);
    if (!set->x_is_steps &&
        s->count) /* seconds since the first row: a date is too large a number to fit well */
        for (size_t i = s->count; i-- > 0;)
            s->x[i] -= s->x[0];
    set->count += s->count > 0;
    return 0;
}

static double seconds_per_step(const struct table *t, const struct picked *p)
{
    if (p->axis == SIZE_MAX || p->time == SIZE_MAX || t->rows < 2)
        return NAN;
    const double *first = t->cells, *last = t->cells + (t->rows - 1) * t->stride;
    double pace =
        (last[p->time] - first[p->time]) * time_scale(t, p->time) / (last[p->axis] - first[p->axis]);
    return pace > 0 && isfinite(pace) ? pace : NAN;
}

struct pid_order {
    const struct table *table;
    size_t column;
};

/* Orders rows by pid, and the rows of one pid as they came, so that each process is one contiguous range. */
static int by_pid(const void *a, const void *b, void *context)
{
    const struct pid_order *order = context;
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    double l = order->table->cells[left * order->table->stride + order->column];
    double r = order->table->cells[right * order->table->stride + order->column];
    if (isnan(l) != isnan(r)) /* rows without a PID come last */
        return isnan(l) ? 1 : -1;
    if (l < r || l > r)
        return l < r ? -1 : 1;
    return left < right ? -1 : left > right;
}

static bool same_pid(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static int refuse_more(const struct picked *p, struct tide_err *err)
{
    tide_err_set(err, "there are more than %d series", TIDE_SERIES_MOST);
    return p->pid != SIZE_MAX
               ? tide_err_hint(err, "keep the rows of the processes that matter, for example with grep")
               : tide_err_hint(err, "choose one with --column");
}

static int make_set(const struct table *t, const struct picked *p, struct tide_series_set *set,
                    struct tide_err *err)
{
    size_t *rows = malloc(t->rows * sizeof *rows);
    set->series = tide_arena_take(&set->arena, TIDE_SERIES_MOST + 1, sizeof *set->series);
    int status = rows && set->series ? 0 : out_of_memory(err);
    for (size_t i = 0; status == 0 && i < t->rows; i++)
        rows[i] = i; /* cppcheck-suppress nullPointerOutOfMemory ; status is 0 only with rows */
    if (status == 0 && p->pid != SIZE_MAX) {
        struct pid_order order = {t, p->pid};
        qsort_r(rows, t->rows, sizeof *rows, by_pid, &order);
    }
    for (size_t from = 0, to; status == 0 && from < t->rows; from = to) {
        to = t->rows;
        if (p->pid != SIZE_MAX) {
            double pid = t->cells[rows[from] * t->stride + p->pid];
            for (to = from + 1; to < t->rows && same_pid(t->cells[rows[to] * t->stride + p->pid], pid);)
                to++;
        }
        for (size_t v = 0; status == 0 && v < p->values; v++)
            status = set->count < TIDE_SERIES_MOST ? make_series(t, p, rows + from, to - from, v, set, err)
                                                   : refuse_more(p, err);
    }
    free(rows);
    return status;
}

int tide_series_parse(const char *text, size_t len, const struct tide_series_options *options,
                      struct tide_series_set *ret, struct tide_err *err)
{
    struct tide_series_set set = {.seconds_per_step = NAN};
    tide_arena_init(&set.arena, ARENA_MOST);
    struct table t = {.arena = &set.arena, .wanted = options->column};
    if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
        text += 3;
        len -= 3;
    }
    struct cursor c = {text, text + len, 0};
    size_t first = 0;
    while (first < len &&
           (text[first] == ' ' || text[first] == '\n' || text[first] == '\r' || text[first] == '\t'))
        first++;
    int status = first < len && text[first] == '{'          ? parse_jsonl(&t, c, err)
                 : is_json_array(text + first, len - first) ? refuse_array(err)
                                                            : parse_delimited(&t, c, err);
    struct picked p;
    if (status == 0 && t.rows == 0)
        status = tide_err_set(err, "there are no rows of numbers");
    if (status == 0)
        status = pick_columns(&t, options, &p, err);
    if (status == 0) {
        set.x_is_steps = p.axis != SIZE_MAX || p.time == SIZE_MAX;
        set.seconds_per_step = seconds_per_step(&t, &p);
        status = make_set(&t, &p, &set, err);
    }
    if (status == 0 && set.count == 0)
        status = tide_err_set(err, "every value is missing");
    free(t.cells);
    if (status)
        tide_arena_release(&set.arena);
    else
        *ret = set;
    return status;
}

int tide_series_read(const char *path, const struct tide_series_options *options, struct tide_series_set *ret,
                     struct tide_err *err)
{
    struct tide_buf text;
    const char *shown = TIDE_SHOWN(path, 128);
    tide_buf_init(&text, FILE_MOST);
    int status = tide_infile_read(path, &text, err);
    if (status == 0 && text.failed) {
        status = tide_err_set(err, "'%s' is larger than 1 GiB", shown);
    } else if (status == 0) {
        status = tide_series_parse(tide_buf_view(&text), text.len, options, ret, err);
        if (status)
            tide_err_wrap(err, "cannot read '%s' as a series", shown);
    }
    tide_buf_release(&text);
    return status;
}

void tide_series_release(struct tide_series_set *set)
{
    tide_arena_release(&set->arena);
    *set = (struct tide_series_set){0};
}
