/*
 * test_record_schema.c - the schema of a recording: every member of a row has a column, and docs/RECORDING.md
 * says what is written.
 */
#include "record/schema.h"

#include "recording_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* Without white space, so that the document may break lines as it likes. */
static void squeeze(const char *text, char *out, size_t size)
{
    size_t used = 0;

    for (; *text && used + 1 < size; text++)
        if (!strchr(" \n", *text))
            out[used++] = *text;
    out[used] = '\0';
}

/* A member without a column would never be written, nor read. */
static void every_member_of_a_row_is_a_column(void **state)
{
    (void)state;
    for (size_t t = 0; t < TIDE_SCHEMA_TABLES; t++) {
        const struct tide_schema_table *table = &tide_schema_tables[t];
        char used[256] = {0};
        size_t gap = 0;
        assert_true(table->row_bytes <= sizeof used);
        for (size_t i = 0; i < table->column_count; i++) {
            const struct tide_schema_column *column = &table->columns[i];
            assert_true(column->since >= table->columns[0].since && column->since <= TIDE_RECORD_VERSION);
            assert_false(memchr(used + column->offset, 1, column->bytes));
            memset(used + column->offset, 1, column->bytes);
        }
        for (size_t at = 0; at < table->row_bytes; at++) {
            gap = used[at] ? 0 : gap + 1;
            if (gap == sizeof(int64_t))
                fail_msg("table '%s': no column is at offset %zu", table->name, at - gap + 1);
        }
    }
}

/* The document, without white space; skips where there is none. */
static const char *squeezed_document(void)
{
    static char document[65536], squeezed[65536];
    FILE *in = fopen("docs/RECORDING.md", "r");
    if (!in)
        skip(); /* not run from the top of the tree */
    document[fread(document, 1, sizeof document - 1, in)] = '\0';
    fclose(in);
    squeeze(document, squeezed, sizeof squeezed);
    return squeezed;
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    while ((text = strstr(text, word))) {
        text += strlen(word);
        count++;
    }
    return count;
}

static void the_document_has_the_schema_that_is_written(void **state)
{
    (void)state;
    static char wanted[4096];
    const char *document = squeezed_document();
    assert_int_equal(tide_writer_free(new_writer(), NULL), 0);
    sqlite3 *db;
    sqlite3_stmt *statement;
    int count = 0;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL", -1, &statement, NULL),
        SQLITE_OK);
    for (; sqlite3_step(statement) == SQLITE_ROW; count++) {
        squeeze((const char *)sqlite3_column_text(statement, 0), wanted, sizeof wanted);
        strcat(wanted, ";");
        if (!strstr(document, wanted))
            fail_msg("docs/RECORDING.md lacks: %s", sqlite3_column_text(statement, 0));
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    assert_int_equal(count, TIDE_SCHEMA_TABLES + 4);
    assert_int_equal(count_of(document, "CREATETABLE") + count_of(document, "CREATEVIEW"), count);
}

/* "|2|`frame`,`stack`", whatever that version added. */
static void version_row(int version, char *ret_row, size_t size)
{
    size_t len = (size_t)snprintf(ret_row, size, "|%d|", version);
    const char *comma = "";
    for (size_t t = 0; t < TIDE_SCHEMA_TABLES; t++) {
        const struct tide_schema_table *table = &tide_schema_tables[t];
        bool whole = table->columns[0].since == version;
        for (size_t i = 0; i < (whole ? 1 : table->column_count); i++) {
            if (table->columns[i].since != version)
                continue;
            len += (size_t)snprintf(ret_row + len, size - len, "%s`%s%s%s`", comma, table->name,
                                    whole ? "" : ".", whole ? "" : table->columns[i].name);
            assert_true(len < size);
            comma = ",";
        }
    }
}

static void the_document_says_what_each_version_added(void **state)
{
    (void)state;
    char row[1024];
    const char *document = squeezed_document();
    for (int version = 2; version <= TIDE_RECORD_VERSION; version++) {
        version_row(version, row, sizeof row);
        const char *found = strstr(document, row);
        if (!found || !strchr("|;", found[strlen(row)])) /* views follow a semicolon */
            fail_msg("docs/RECORDING.md lacks: %s", row);
    }
    snprintf(row, sizeof row, "theversionofthisschema,%d.", TIDE_RECORD_VERSION);
    assert_non_null(strstr(document, row));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, name_recording, drop_recording)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_member_of_a_row_is_a_column),
        TEST(the_document_has_the_schema_that_is_written),
        TEST(the_document_says_what_each_version_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
