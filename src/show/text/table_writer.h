/*
 * table_writer.h - one way to write a table: aligned text, CSV, an array of objects in a JSON document, or a
 * <table> in a page.
 *
 * tide_table_begin -> tide_table_row per row -> tide_table_end. Rows are written as they come; nothing is
 * buffered. Texts may be untrusted: they are escaped here. CSV and JSON have every column and plain numbers
 * (bytes, seconds); text and page leave out columns of width 0. Text cuts cells that do not fit and, with a
 * title, prints nothing if there are no rows. The page cuts very long cells, and leaves out rows past `most`
 * but counts them.
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
    TIDE_CELL_BYTES,    /* number; "4.1Gi" in text */
    TIDE_CELL_DURATION, /* number of ns; seconds in CSV and JSON */
    TIDE_CELL_REAL,
};

struct tide_column {
    const char *key;   /* in CSV and JSON; includes the unit */
    const char *label; /* in text and page */
    int width;         /* in text; 0: left out; negative: left-aligned; -1: the rest of the line */
    enum tide_cell_kind kind;
};

/* Which member is used depends on the column's kind: `number`, except for text and real. TIDE_UNKNOWN, NULL
 * and NAN mean unknown, written as "-", nothing or null. */
union tide_cell {
    int64_t number;
    const char *text;
    double real;
};

/*
 * What a table holds is written once, as a list with the values of a row, in terms of what is in scope where
 * rows are written: #define LIST(COLUMN) COLUMN("key", "LABEL", width, KIND, value) COLUMN(...)
 */
#define TIDE_COLUMNS(LIST) /* for tide_table_begin() */                                                      \
    ((const struct tide_column[]){LIST(TIDE_LISTED_COLUMN){NULL, NULL, 0, TIDE_CELL_TEXT}})
#define TIDE_ROW(table, LIST) tide_table_row(table, (const union tide_cell[]){LIST(TIDE_LISTED_CELL)})

#define TIDE_LISTED_COLUMN(key, label, width, kind, value) {key, label, width, TIDE_CELL_##kind},
#define TIDE_LISTED_CELL(key, label, width, kind, value)   {TIDE_LISTED_##kind(value)},
#define TIDE_LISTED_TEXT(value)                            .text = (value)
#define TIDE_LISTED_COUNT(value)                           .number = (int64_t)(value)
#define TIDE_LISTED_BYTES                                  TIDE_LISTED_COUNT
#define TIDE_LISTED_DURATION                               TIDE_LISTED_COUNT
#define TIDE_LISTED_REAL(value)                            .real = (value)

struct tide_table {
    enum tide_table_form form;
    FILE *out;
    struct tide_json *json; /* for TIDE_TABLE_JSON */
    const struct tide_column *columns;
    size_t column_count;
    const char *title; /* printed before the first row; NULL: none */
    size_t rows;
    size_t most; /* most rows in a page, and most processes in text; 0: all */
};

/* key: name of the array in JSON. title may be NULL. The columns end with a key of NULL. */
void tide_table_begin(struct tide_table *table, const char *key, const char *title,
                      const struct tide_column *columns);
void tide_table_row(struct tide_table *table, const union tide_cell *cells);
void tide_table_end(struct tide_table *table);

#endif
