/*
 * schema.h - the recording, described once: which table has which columns, their types, where they are in the
 * structs of record.h, and since which version. The SQL, binding, reading, and the copies of rows that wait
 * (writer.c) are derived from this. docs/RECORDING.md explains it to users; a test compares the two.
 *
 * To add a column: add the member in record.h, its line in schema.c with the next TIDE_RECORD_VERSION, and
 * document it.
 *
 * The main file has the schema from the first moment, because it is written before the database enters WAL
 * mode. So a recording is recognisable even if its -wal was lost.
 */
#ifndef TIDE_SCHEMA_H
#define TIDE_SCHEMA_H

#include "record/record.h"

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* PRAGMA application_id: "TIDE" in ASCII. Tells a recording from any other SQLite database. */
enum { TIDE_APPLICATION_ID = 0x54494445 };

/* How a value is stored: numeric types first, then those with text. On reading, a row with a value outside
 * its column's range is skipped. */
enum tide_schema_type {
    TIDE_TYPE_ID,       /* 1, 2, ... */
    TIDE_TYPE_COUNT,    /* a size, a time, a number of something: 0 or more */
    TIDE_TYPE_SIZE,     /* the same, or NULL for TIDE_UNKNOWN */
    TIDE_TYPE_LINK,     /* an id, or 0 for none; NULL is none too */
    TIDE_TYPE_HOLDER,   /* an id, or 0 for none; TIDE_UNKNOWN is stored as -1, since a key cannot be NULL */
    TIDE_TYPE_SIGNED,   /* any number; -1 is a number too (a step may be -1), not TIDE_UNKNOWN */
    TIDE_TYPE_FLAG,     /* bool: 0 or 1; NULL is false */
    TIDE_TYPE_MARK,     /* enum tide_mark_kind */
    TIDE_TYPE_SOURCE,   /* enum tide_mark_source */
    TIDE_TYPE_SITE,     /* enum tide_site_kind */
    TIDE_TYPE_TEXT,     /* text, stored as a blob if it is not UTF-8; NULL is "" */
    TIDE_TYPE_ANYTHING, /* struct tide_meta_value: text or TIDE_TYPE_SIZE */
    TIDE_TYPES
};

struct tide_schema_column {
    const char *name;
    enum tide_schema_type type;
    size_t offset, bytes; /* in the struct */
    int since;            /* version of the schema */
};

struct tide_schema_table {
    const char *name;
    const struct tide_schema_column *columns; /* the table exists since the version of its first column */
    size_t column_count;
    size_t row_bytes; /* of the struct */
    size_t keys;      /* the first so many columns; 0: a row number that SQLite assigns, in no struct */
    bool waits;       /* later rows depend on its rows, so they are kept for another try when writing fails */
    const char *order, *conflict; /* NULL: in order of the key; a newer row replaces the older */
};

extern const struct tide_schema_table tide_schema_tables[TIDE_SCHEMA_TABLES];

/* Makes all tables and views in an empty database. Returns SQLite's code. */
int tide_schema_create(sqlite3 *db);

/* Length of the longest statement about one table. */
enum { TIDE_SCHEMA_SQL = 1024 };

/* An INSERT of a row. The parameters are its columns. */
void tide_schema_insert(enum tide_schema table, char ret_sql[TIDE_SCHEMA_SQL]);

/* A SELECT of the rows whose key (first column) is greater than ?1. Yields SQLite's row number if that is the
 * key, then all columns, NULL for those that are newer than the recording's version. */
void tide_schema_select(enum tide_schema table, int64_t version, char ret_sql[TIDE_SCHEMA_SQL]);

/* Binds a row to the parameters. Texts are borrowed until the statement has run and are cut at
 * TIDE_READER_TEXT bytes. */
void tide_schema_bind(const struct tide_schema_table *table, const void *row, sqlite3_stmt *statement);

/* Reads a row from the columns after the first `before`. False if a value is out of range. Texts are borrowed
 * until the next step. */
bool tide_schema_read(const struct tide_schema_table *table, sqlite3_stmt *statement, size_t before,
                      void *ret_row);

/* The same for one value of TIDE_TYPE_ANYTHING. tide_schema_read() does not read this type. */
bool tide_schema_read_value(sqlite3_stmt *statement, int column, struct tide_meta_value *ret_value);

#endif
