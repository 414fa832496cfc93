/*
 * columns.h - what a column of a log is, by its name, and what a cell is, by its text. Pure.
 */
#ifndef TIDE_COLUMNS_H
#define TIDE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

enum tide_column_role {
    TIDE_COLUMN_OTHER,
    TIDE_COLUMN_STEP,
    TIDE_COLUMN_TIME,
    TIDE_COLUMN_PID,
    TIDE_COLUMN_MEMORY,
};

enum tide_column_role tide_column_role(const char *name);

/* Bytes per unit of a column by its name ("rss_mb", "RSS (MiB)", "mem[GB]", "uss_bytes"); NAN when it does
 * not say. */
double tide_column_bytes_scale(const char *name);

/* Bytes per unit; NAN when text is no unit. */
double tide_column_unit_scale(const char *text);

/* Seconds per unit of a time column by its name; where the name is silent, by the size of its first value (a
 * date in ms, us or ns). */
double tide_column_seconds_scale(const char *name, double first);

/* A cell: a number, a missing value (NAN), or an ISO date (seconds since 1970, *ret_is_date). False: none of
 * these. */
bool tide_column_value(const char *text, size_t len, double *ret_value, bool *ret_is_date);

#endif
