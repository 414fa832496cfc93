/*
 * series.h - reads memory series from an existing log: CSV, TSV or JSONL.
 *
 * tide_series_read (or _parse, for text in memory) -> use -> tide_series_release.
 *
 * Rows: CSV and TSV have one header row. Without one, a single column is values, and two columns are step (or
 * time, if they begin with a date, a time of day or a time since 1970) and value. '#' comments and empty
 * lines are skipped. The delimiter (comma, tab, semicolon, spaces) is detected. Fields may be quoted. JSONL
 * has one object per line, whose keys are the columns. Empty cells, null, NA and nan are missing values.
 * Columns: the axis is the step column (step, global_step, iter, iteration ...), else time (t, seconds,
 * elapsed, timestamp ...; the unit is in the name; dates and times of day too), else the row number. Every
 * column whose name says memory and that has a unit in its name (rss_mb, "RSS (MiB)", gpu_bytes, ...) or in
 * its cells ("512 MiB") is a series; --column and --unit override this. A pid column splits the rows into one
 * series per process. Rows whose time (or step, without a clock) falls from row to row are read from the last
 * to the first. Where a clock jumps (back, or more than a thousand times its usual stride ahead), the
 * jump becomes one usual stride. Steps that start over continue from where they were.
 *
 * Malformed text is refused with the line number. MB is 1,000,000 bytes, MiB 1,048,576.
 */
#ifndef TIDE_SERIES_H
#define TIDE_SERIES_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { TIDE_SERIES_COLUMNS = 256, TIDE_SERIES_MOST = 1024, TIDE_SERIES_LINE = 256 * 1024 };

struct tide_series {
    const char *name; /* of the column, with "[PID]" where rows are split; unescaped; in the arena */
    double *x;
    double *bytes;
    size_t count;
};

struct tide_series_set {
    struct tide_series *series;
    size_t count;
    bool x_is_steps;         /* else seconds */
    double seconds_per_step; /* if the log has both; else NAN */
    struct tide_arena arena;
};

struct tide_series_options {
    const char *unit;   /* B, KB, MiB ...; NULL: from the column's name */
    const char *column; /* NULL: every memory column */
};

/* path "-" is standard input. On success the caller releases the set. */
int tide_series_read(const char *path, const struct tide_series_options *options, struct tide_series_set *ret,
                     struct tide_err *err);
int tide_series_parse(const char *text, size_t len, const struct tide_series_options *options,
                      struct tide_series_set *ret, struct tide_err *err);
void tide_series_release(struct tide_series_set *set);

#endif
