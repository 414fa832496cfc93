/*
 * reader_private.h - the inside of a reader, for reader.c and reader_rows.c; and a reader over a database
 * that is already open, for tests and fuzzing, which have databases in memory.
 */
#ifndef TIDE_READER_PRIVATE_H
#define TIDE_READER_PRIVATE_H

#include "base/arena.h"
#include "record/reader.h"
#include "record/schema.h"

struct tide_reader_meta {
    struct tide_reader_meta *next;
    const char *key, *text;
};

struct tide_reader {
    sqlite3 *db;
    char *name;      /* escaped */
    int64_t version; /* of the schema */
    struct tide_arena arena;
    struct tide_reader_meta *metas; /* texts that were handed out */
    int64_t skipped;
    /* Largest key of a row that is in `skipped`: one that is seen again counts once. */
    int64_t counted[TIDE_SCHEMA_TABLES];
};

/* Takes over db: closes it when the reader is freed, and also on failure. name is what error sentences call
 * it. */
int tide_reader_adopt(sqlite3 *db, const char *name, struct tide_reader **ret_reader, struct tide_err *err);

/* Says what the database's last error means for a user. Returns -1. */
int tide_reader_explain(const struct tide_reader *reader, struct tide_err *err);

#endif
