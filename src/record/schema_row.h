/*
 * schema_row.h - one row between a struct of record.h and a statement, column by column as schema.h says.
 */
#ifndef TIDE_SCHEMA_ROW_H
#define TIDE_SCHEMA_ROW_H

#include "record/record.h"
#include "record/schema.h"

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
