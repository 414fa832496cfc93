/*
 * reader.h - reads a recording, finished or still growing.
 *
 * tide_reader_new -> _meta_*, _each_* as often as wanted -> _free. Each call sees what was committed when it
 * began. Wrap several calls that must agree with each other in tide_reader_begin/_end (one read transaction).
 *
 * The file is not trusted: a database that is truncated, foreign, of a newer version, or has rows out of
 * range gives an error sentence, never a crash. It is opened read-only and nothing in it is executed (no
 * triggers, no views, no extension, defensive mode). Values are checked: sizes in [0, 2^62], kinds known,
 * text at most TIDE_READER_TEXT bytes; rows that fail are skipped and counted (tide_reader_skipped).
 *
 * Callbacks get borrowed rows, valid during the call; a callback that returns non-zero stops the iteration,
 * which then returns that value. One thread.
 */
#ifndef TIDE_READER_H
#define TIDE_READER_H

#include "base/err.h"
#include "record/record.h"

struct tide_reader;

enum { TIDE_READER_TEXT = 64 * 1024 };

/* Caller frees with tide_reader_free. */
int tide_reader_new(const char *path, struct tide_reader **ret_reader, struct tide_err *err);
void tide_reader_free(struct tide_reader *reader);

/* The same for a database that is already open, for fuzzing, which has databases in memory. Takes it over,
 * even on failure. name: what error messages call it. */
struct sqlite3;
int tide_reader_adopt(struct sqlite3 *db, const char *name, struct tide_reader **ret_reader,
                      struct tide_err *err);

/* 1 if the file starts like a SQLite database, 0 if not, -1 with a message if it cannot be read. */
int tide_reader_is_recording(const char *path, struct tide_err *err);

/* False if no other process has the recording open, so that nobody writes to it; true if one has, or if it
 * cannot be told. Call it while this process does not have the recording open: it closes a descriptor of the
 * -shm file, which drops all of this process's locks on that file. */
bool tide_reader_is_written(const char *path);

int tide_reader_begin(struct tide_reader *reader, struct tide_err *err);
void tide_reader_end(struct tide_reader *reader);

/* The value of a key; NULL and TIDE_UNKNOWN if there is none. The text is borrowed until the next call. */
struct tide_meta_value tide_reader_meta(struct tide_reader *reader, const char *key);

/* row: the struct of record.h that belongs to the table. */
typedef int tide_on_row(void *context, const void *row);

#define TIDE_READER_ALL INT64_MIN

/* Calls `on` for each row of a table whose key (its id, its tick; for marks the row number) is greater than
 * `after`, by key; limits, notes and heap states by time, the rows of a stack by depth. A table that the
 * recording is too old to have is empty. Returns 0, -1, or the callback's value. */
int tide_reader_each(struct tide_reader *reader, enum tide_schema table, int64_t after, tide_on_row *on,
                     void *context, struct tide_err *err);

/* After reading marks: the row number of the last one for which the callback returned >= 0, or `after`. */
int64_t tide_reader_last(const struct tide_reader *reader);

/* Rows left out so far because their values were out of range. */
int64_t tide_reader_skipped(const struct tide_reader *reader);

#endif
