/*
 * schema.h - the tables of a recording, shared by its writer and its reader. docs/RECORDING.md explains them
 * to users.
 *
 * The main file holds the schema from the first moment (it is made before the database enters WAL mode), so a
 * recording is recognisable even when its -wal was lost.
 */
#ifndef TIDE_SCHEMA_H
#define TIDE_SCHEMA_H

#include <sqlite3.h>

/* PRAGMA application_id: "TIDE" in ASCII. Tells a recording from any other SQLite database. */
enum { TIDE_APPLICATION_ID = 0x54494445 };

/* In the table gpu, where process is part of the key and so cannot be NULL: a process that could not be told.
 */
enum { TIDE_GPU_PROCESS_UNKNOWN = -1 };

/* Makes all tables and views in an empty database. Ends with a statement that sets application_id and
 * user_version. */
extern const char tide_schema_sql[];

/* The tables that a reader queries, NULL-terminated: of every version, and those that versions 2 and 3
 * added. */
extern const char *const tide_schema_tables[];
extern const char *const tide_schema_heap_tables[];
extern const char *const tide_schema_retention_tables[];

#endif
