/*
 * test_record_damage.c - every kind of damage to a recording gets a sentence, or is left out and counted.
 */
#include "recorded_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void is_refused(const char *sentence, const char *hint)
{
    struct tide_reader *reader = NULL;
    struct tide_err err = {0};

    assert_int_equal(tide_reader_new(path, &reader, &err), -1);
    assert_null(reader);
    if (!strstr(err.text, sentence) || (hint && !strstr(err.hint, hint)))
        fail_msg("said: %s / %s", err.text, err.hint);
}

static void rows_out_of_range_are_skipped_and_counted(void **state)
{
    (void)state;
    make_recording();
    run_sql(
        "UPDATE sample SET anon_bytes = -5 WHERE tick = 1; UPDATE sample SET file_bytes = 1.5 WHERE tick = 2;"
        "UPDATE sample SET threads = 'many' WHERE tick = 3; UPDATE sample SET swap_bytes = 4611686018427387905 WHERE tick = 4;"
        "UPDATE sample SET anon_bytes = NULL WHERE tick = 5; UPDATE process SET name = 17.25, command = 3;"
        "INSERT INTO mark(t_ns, process, kind, source, number, name) VALUES (1, 1, 0, 1, 1, ''), (1, 1, 7, 1, 1, ''),"
        " (1, 1, 1, 4, 1, ''), (-1, 1, 1, 1, 1, ''), (1, 1, 1, 1, -9223372036854775807, ''),"
        " (1, 1, 1, 1, 1, printf('%.70000c', 'x')), (5, NULL, 1, 1, -3, NULL);");
    struct tide_reader *reader = new_reader();
    struct tide_err err = {0};
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, on_sample, &seen, &err), 0);
    assert_int_equal(seen.samples, 96);
    assert_int_equal(tide_reader_skipped(reader), 4);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_MARK, 0, on_mark, &seen, &err), 0);
    assert_int_equal(seen.marks, 1);
    assert_int_equal(seen.mark.process, 0);
    assert_int_equal(seen.mark.number, -3);
    assert_int_equal(tide_reader_skipped(reader), 10);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_PROCESS, TIDE_READER_ALL, on_process, &seen, &err),
                     0);
    assert_int_equal(seen.processes, 1); /* a text column turns numbers into text by itself */
    tide_reader_free(reader);
}

static void what_is_no_recording_gets_a_sentence(void **state)
{
    (void)state;
    FILE *out;
    struct tide_err err;
    is_refused("no such file", "tidemark run");
    assert_int_equal(tide_reader_is_recording(path, &err), -1);
    assert_non_null(strstr(err.text, "no such file"));
    assert_int_equal(mkdir(path, 0700), 0);
    is_refused("it is a directory", NULL);
    assert_int_equal(tide_reader_is_recording(path, &err), -1);
    rmdir(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    is_refused("not a regular file", NULL);
    unlink(path);
    out = fopen(path, "w");
    fclose(out);
    is_refused("is empty", "tidemark run");
    assert_int_equal(tide_reader_is_recording(path, &err), 0);
    out = fopen(path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("step,rss_mb\n1,2\n", out);
    fclose(out);
    is_refused("is not a recording", "tidemark run");
    assert_int_equal(tide_reader_is_recording(path, &err), 0);
    unlink(path);
    run_sql("CREATE TABLE sample(a); PRAGMA user_version = 1;");
    is_refused("is a database, but not a recording", "tidemark run");
    unlink(path);
    make_recording();
    run_sql("PRAGMA user_version = 10");
    is_refused("of version 10, and this tidemark reads up to version 9", "a newer one");
    run_sql("PRAGMA user_version = 0");
    is_refused("it has version 0", NULL);
}

static void a_schema_that_would_run_something_is_refused(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "DROP TABLE sample; CREATE VIEW sample AS SELECT 1 AS tick, 1 AS process, randomblob(1000000000) AS anon_bytes,"
        " 0 AS file_bytes, 0 AS shmem_bytes, 0 AS swap_bytes, 0 AS huge_bytes, 0 AS threads, 0 AS asked_bytes, 0 AS mapped_bytes",
        "DROP TABLE mark; CREATE VIRTUAL TABLE mark USING fts5(id, t_ns, process, kind, source, number, name)",
        "DROP TABLE note; CREATE TABLE note(id INTEGER PRIMARY KEY, t_ns INTEGER,"
        " kills INTEGER, text TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000))) VIRTUAL)",
        "DROP TABLE tick",
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 0 WHERE name = 'meta'",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        remove_recording();
        make_recording();
        run_sql(schemas[i]);
        is_refused("is damaged", NULL);
    }
    /* A table with other columns is found out when it is read. */
    remove_recording();
    make_recording();
    run_sql("DROP TABLE sample; CREATE TABLE sample(tick, process)");
    struct tide_reader *reader = new_reader();
    struct tide_err err = {0};
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_SAMPLE, 0, on_sample, &seen, &err), -1);
    assert_non_null(strstr(err.text, "anon_bytes"));
    tide_reader_free(reader);
    /* Triggers and further tables are nobody's business. */
    remove_recording();
    make_recording();
    run_sql("CREATE TABLE mine(x); CREATE TRIGGER t AFTER INSERT ON sample BEGIN DELETE FROM sample; END");
    tide_reader_free(new_reader());
}

static void a_row_that_is_too_long_is_damage(void **state)
{
    (void)state;
    make_recording();
    run_sql("INSERT INTO note VALUES (1, 1, zeroblob(5000000), 0)");
    struct tide_reader *reader = new_reader();
    struct tide_err err = {0};
    memset(&seen, 0, sizeof seen);
    assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_NOTE, TIDE_READER_ALL, on_note, &seen, &err), -1);
    assert_non_null(strstr(err.text, "a row of more than"));
    tide_reader_free(reader);
}

static void a_recording_of_version_2_has_all_its_tables(void **state)
{
    (void)state;
    make_recording();
    run_sql("DROP TABLE site_sample");
    is_refused("no proper table 'site_sample'", NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, name_recording, drop_recording)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_out_of_range_are_skipped_and_counted),    TEST(what_is_no_recording_gets_a_sentence),
        TEST(a_schema_that_would_run_something_is_refused), TEST(a_row_that_is_too_long_is_damage),
        TEST(a_recording_of_version_2_has_all_its_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
