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

/* The same of a database that is open, which it takes over, also on failure: for fuzzing, which has databases
 * in memory. name is what error sentences call it. */
struct sqlite3;
int tide_reader_adopt(struct sqlite3 *db, const char *name, struct tide_reader **ret_reader,
                      struct tide_err *err);

/* Whether the first bytes of the file say that it is a SQLite database; -1 with a sentence when it cannot be
 * read. */
int tide_reader_is_recording(const char *path, struct tide_err *err);

int tide_reader_begin(struct tide_reader *reader, struct tide_err *err);
void tide_reader_end(struct tide_reader *reader);

/* NULL / TIDE_UNKNOWN when there is none. The text is borrowed: valid until the next one is asked for. */
const char *tide_reader_meta_text(struct tide_reader *reader, const char *key);
int64_t tide_reader_meta_integer(struct tide_reader *reader, const char *key);

/* A row of a table, as its struct in record.h. */
typedef int tide_on_row(void *context, const void *row);

#define TIDE_READER_ALL INT64_MIN

/* The rows of a table whose key is over `after`, in order of the key: an id of its own, or of a tick; of
 * marks a row number. Limits, notes and states of the heap come in order of time, a stack's rows in order of
 * depth. A table that the recording is too old for has none. Returns 0, -1, or the callback's value. */
int tide_reader_each(struct tide_reader *reader, enum tide_schema table, int64_t after, tide_on_row *on,
                     void *context, struct tide_err *err);

/* Of marks: the row number of the last one that the callback took in that call, or `after`. */
int64_t tide_reader_last(const struct tide_reader *reader);

/* Rows left out so far because their values were out of range. */
int64_t tide_reader_skipped(const struct tide_reader *reader);

#endif
