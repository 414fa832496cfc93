/*
 * columns.h - what a column of a log holds, by its name, and a cell, by its text. Pure functions.
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

/* Bytes per unit of a column, from its name ("rss_mb", "RSS (MiB)", "mem[GB]", "uss_bytes"). NAN if the name
 * has no unit. */
double tide_column_bytes_scale(const char *name);

/* Seconds per unit of a time column, from its name. If the name has no unit, from the size of the first
 * value, which may be a date in ms, us or ns. */
double tide_column_seconds_scale(const char *name, double first);

enum tide_cell { TIDE_CELL_TEXT, TIDE_CELL_NUMBER, TIDE_CELL_MISSING, TIDE_CELL_TIME, TIDE_CELL_SIZE };

/* The kind of a cell and its value: a number; NAN for a missing value; seconds for a date (since 1970) or a
 * time of day; bytes for a number with a unit of memory ("512 MiB"). Other text has no value. */
enum tide_cell tide_column_cell(const char *text, size_t len, double *ret_value);

#endif
