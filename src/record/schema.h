/*
 * schema.h - the recording, described once: which table has which columns, of what type, where they are in
 * the structs of record.h, and since which version. SQL, binding, reading and the copies of rows that
 * wait (pending.h) follow from this; docs/RECORDING.md explains it to users, and a test holds it to
 * this.
 *
 * To add a column: the member in record.h, its line in schema.c with the next TIDE_RECORD_VERSION, and the
 * document.
 *
 * The main file holds the schema from the first moment (it is made before the database enters WAL mode), so a
 * recording is recognisable even when its -wal was lost.
 */
#ifndef TIDE_SCHEMA_H
#define TIDE_SCHEMA_H

#include "record/record.h"

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* PRAGMA application_id: "TIDE" in ASCII. Tells a recording from any other SQLite database. */
enum { TIDE_APPLICATION_ID = 0x54494445 };

/* How a value is kept: numbers first, then what has text. A row with a value that its column cannot have is
 * left out when it is read. */
enum tide_schema_type {
    TIDE_TYPE_ID,       /* 1, 2, ... */
    TIDE_TYPE_COUNT,    /* a size, a time, a number of something: 0 or more */
    TIDE_TYPE_SIZE,     /* the same, or NULL for TIDE_UNKNOWN */
    TIDE_TYPE_LINK,     /* an id, or 0 for none; NULL is none too */
    TIDE_TYPE_HOLDER,   /* an id, or 0 for none; TIDE_UNKNOWN is -1, since a key cannot be NULL */
    TIDE_TYPE_SIGNED,   /* any number: TIDE_UNKNOWN has no meaning here, a step may well be -1 */
    TIDE_TYPE_FLAG,     /* bool: 0 or 1; NULL is false */
    TIDE_TYPE_MARK,     /* enum tide_mark_kind */
    TIDE_TYPE_SOURCE,   /* enum tide_mark_source */
    TIDE_TYPE_SITE,     /* enum tide_site_kind */
    TIDE_TYPE_TEXT,     /* text; a blob where it is not UTF-8; NULL is "" */
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
    const struct tide_schema_column *columns; /* a table is as old as its first */
    size_t column_count;
    size_t row_bytes; /* of the struct */
    size_t keys;      /* so many columns are the key; 0: a number that SQLite gives, which is in no struct */
    bool waits;       /* later rows depend on its rows, which therefore outlive a failure to write */
    const char *order, *conflict; /* instead of "by key" and "the newer row replaces"; NULL: these */
};

extern const struct tide_schema_table tide_schema_tables[TIDE_SCHEMA_TABLES];

/* Makes all tables and views in an empty database. Returns SQLite's code. */
int tide_schema_create(sqlite3 *db);

/* The longest statement about one table. */
enum { TIDE_SCHEMA_SQL = 1024 };

/* Puts so many rows, whose columns are the parameters. */
void tide_schema_insert(enum tide_schema table, size_t rows, char ret_sql[TIDE_SCHEMA_SQL]);

/* Gives the rows of a recording of that version whose key (its first column) is over ?1: SQLite's number
 * where that is the key, then all columns, NULL for those that the version does not have. */
void tide_schema_select(enum tide_schema table, int64_t version, char ret_sql[TIDE_SCHEMA_SQL]);

/* Binds a row to the parameters after the first `before`. Texts are borrowed until the statement has run;
 * what is longer than TIDE_READER_TEXT is cut. */
void tide_schema_bind(const struct tide_schema_table *table, const void *row, sqlite3_stmt *statement,
                      size_t before);

/* Reads a row from the columns after the first `before`, or says that a value cannot be. Texts are borrowed
 * until the next step. */
bool tide_schema_read(const struct tide_schema_table *table, sqlite3_stmt *statement, size_t before,
                      void *ret_row);

/* The same with a value of TIDE_TYPE_ANYTHING, which no row that is read as a whole has. */
bool tide_schema_read_value(sqlite3_stmt *statement, int column, struct tide_meta_value *ret_value);

#endif
