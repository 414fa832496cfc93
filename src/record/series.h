/*
 * series.h - memory series that somebody already has: a CSV, TSV or JSONL log.
 *
 * tide_series_read (or _parse, of text in memory) -> look -> tide_series_release.
 *
 * Rows: one header row (for CSV and TSV; without one, a single column is values and two columns are step and
 * value), '#' comments and empty lines are skipped, the delimiter (comma, tab, semicolon, spaces) is
 * recognised, fields may be quoted. JSONL: one object a line, keys are columns. Empty cells, null, NA, nan
 * are missing values.
 * Columns: the axis is the column called step (global_step, iter, iteration ...), else time (t, seconds,
 * elapsed, timestamp ...; units from the name; dates and times of day too), else the row number. Every column
 * that is called like memory and has a unit in its name (rss_mb, "RSS (MiB)", gpu_bytes, ...) or in its cells
 * ("512 MiB") is a series; --column and --unit say otherwise. A pid column splits the rows into one series
 * per process. A clock that jumps (back, or a thousand times its usual stride ahead) is bridged by its usual
 * stride; steps that start over go on from where they were.
 *
 * Malformed text is refused with the number of the line. MB is 1,000,000 bytes, MiB 1,048,576.
 */
#ifndef TIDE_SERIES_H
#define TIDE_SERIES_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { TIDE_SERIES_COLUMNS = 256, TIDE_SERIES_MOST = 1024, TIDE_SERIES_LINE = 256 * 1024 };

struct tide_series {
    const char *name; /* of the column, with "[PID]" where rows are split; unescaped; lives in the set */
    double *x;
    double *bytes;
    size_t count;
};

struct tide_series_set {
    struct tide_series *series;
    size_t count;
    bool x_is_steps;         /* else seconds */
    double seconds_per_step; /* where the log has both; else NAN */
    struct tide_arena arena;
};

struct tide_series_options {
    const char *unit;   /* B, KB, MiB ...; NULL: from the column's name */
    const char *column; /* NULL: every one that is memory */
};

/* path "-" is standard input. On success the caller releases the set. */
int tide_series_read(const char *path, const struct tide_series_options *options, struct tide_series_set *ret,
                     struct tide_err *err);
int tide_series_parse(const char *text, size_t len, const struct tide_series_options *options,
                      struct tide_series_set *ret, struct tide_err *err);
void tide_series_release(struct tide_series_set *set);

#endif
