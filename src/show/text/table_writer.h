/*
 * table_writer.h - one way to put out a table: aligned for people, as CSV, as an array of objects in a JSON
 * document, or as a <table> of a page.
 *
 * tide_table_begin -> tide_table_row per row -> tide_table_end. Rows are written as they come; nothing is
 * held. Texts may be untrusted: they are escaped here. CSV and JSON have every column and plain
 * numbers (bytes, seconds); the text form and the page leave out columns of width 0. The text form cuts what
 * does not fit, and with a title says nothing where there are no rows; the page cuts what is very long, and
 * rows past `most`, which it counts.
 */
#ifndef TIDE_TABLE_WRITER_H
#define TIDE_TABLE_WRITER_H

#include "base/json.h"

#include <stdint.h>
#include <stdio.h>

enum tide_table_form { TIDE_TABLE_TEXT, TIDE_TABLE_CSV, TIDE_TABLE_JSON, TIDE_TABLE_HTML };

enum tide_cell_kind {
    TIDE_CELL_TEXT,
    TIDE_CELL_COUNT,    /* number */
    TIDE_CELL_BYTES,    /* number; in a table "4.1G" */
    TIDE_CELL_DURATION, /* number of ns; elsewhere seconds */
    TIDE_CELL_REAL,
};

struct tide_column {
    const char *key;   /* in CSV and JSON: says the unit */
    const char *label; /* in a table */
    int width;         /* in a table; 0: not there; negative: to the left; -1: the rest of the line */
    enum tide_cell_kind kind;
};

/* Of the kind its column says: a number, unless another is named. TIDE_UNKNOWN, NAN and NULL are "unknown":
 * "-", nothing, null. */
union tide_cell {
    int64_t number;
    const char *text;
    double real;
};

struct tide_table {
    enum tide_table_form form;
    FILE *out;
    struct tide_json *json; /* for TIDE_TABLE_JSON */
    const struct tide_column *columns;
    size_t column_count;
    const char *title; /* that comes before the first row; NULL: none */
    size_t rows;
    size_t most; /* rows that are shown in a page, and of processes in a text; 0: all */
};

/* key names the array in JSON; title may be NULL. A column list ends with a key of NULL. */
void tide_table_begin(struct tide_table *table, const char *key, const char *title,
                      const struct tide_column *columns);
void tide_table_row(struct tide_table *table, const union tide_cell *cells);
void tide_table_end(struct tide_table *table);

#endif
