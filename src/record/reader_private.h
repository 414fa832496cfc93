/*
 * reader_private.h - the reader over a database that is already open. For tests and fuzzing, which have
 * databases in memory.
 */
#ifndef TIDE_READER_PRIVATE_H
#define TIDE_READER_PRIVATE_H

#include "record/reader.h"

#include <sqlite3.h>

/* Takes over db: closes it when the reader is freed, and also on failure. name is what error sentences call
 * it. */
int tide_reader_adopt(sqlite3 *db, const char *name, struct tide_reader **ret_reader, struct tide_err *err);

#endif
