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

/* Seconds per unit of a time column by its name; where the name is silent, by the size of its first value (a
 * date in ms, us or ns). */
double tide_column_seconds_scale(const char *name, double first);

enum tide_cell { TIDE_CELL_TEXT, TIDE_CELL_NUMBER, TIDE_CELL_MISSING, TIDE_CELL_TIME, TIDE_CELL_SIZE };

/* What a cell is, and its value: a number; NAN where a value is missing; seconds, of a date (since 1970) or
 * of a time of day; bytes, of a number with a unit of memory ("512 MiB"). Of other text there is no value. */
enum tide_cell tide_column_cell(const char *text, size_t len, double *ret_value);

#endif
