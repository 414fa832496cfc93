/* Statements that are prepared, used and never finalized. */
#include "pace.h"
#include <sqlite3.h>

__attribute__((noinline)) static void insert(sqlite3 *db, int step)
{
    sqlite3_stmt *statement;
    char *value = sqlite3_malloc(100000);
    for (int i = 0; i < 100000; i++)
        value[i] = 'x';
    sqlite3_prepare_v2(db, "INSERT INTO log VALUES (?, length(?))", -1, &statement, NULL);
    sqlite3_bind_int(statement, 1, step);
    sqlite3_bind_text(statement, 2, value, 100000, SQLITE_TRANSIENT); /* LEAK: a copy of 100,000 bytes */
    sqlite3_step(statement);
    sqlite3_reset(statement);
    sqlite3_free(value);
}

int main(int argc, char **argv)
{
    (void)argc;
    sqlite3 *db;
    sqlite3_open(":memory:", &db);
    sqlite3_exec(db, "CREATE TABLE log (step INTEGER, size INTEGER)", NULL, NULL, NULL);
    for (int step; (step = next_step(argv)) >= 0;)
        insert(db, step);
}
