/*
 * fuzz_recording.c - any bytes as a recording: opened, loaded, summed up, assessed, compared with itself,
 * exported in every format and made a page of, or refused with a sentence.
 *
 * The database is in memory. There it cannot have a log, so the two bytes that say "WAL mode" are set to say
 * otherwise.
 */
#include "assess/blame.h"
#include "assess/diff.h"
#include "assess/history.h"
#include "assess/summary.h"
#include "base/check.h"
#include "record/reader.h"
#include "record/schema.h"
#include "show/export/export.h"
#include "show/report/report.h"
#include "show/text/blame_text.h"
#include "show/text/diff_text.h"
#include "show/text/recording_tables.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *nowhere(void)
{
    static FILE *out;
    if (!out && !(out = fopen("/dev/null", "w")))
        abort();
    return out;
}

static void show_everything(const struct tide_summary *summary, struct tide_reader *reader)
{
    struct tide_table table = {.form = TIDE_TABLE_TEXT, .out = nowhere()};
    struct tide_err err;

    tide_tables_processes(&table, summary, "");
    tide_tables_phases(&table, summary, "");
    tide_tables_marks(&table, summary, "");
    tide_tables_peaks(&table, summary, "");
    tide_tables_gpu(&table, summary, "");
    table.form = TIDE_TABLE_CSV;
    tide_tables_ticks(&table, summary, "");
    tide_tables_notes(&table, summary, "");
    tide_tables_limits(&table, summary, "");
    (void)tide_tables_samples(&table, summary, reader, &err);
}

static sqlite3 *open_file(const uint8_t *data, size_t size)
{
    sqlite3 *db = NULL;
    unsigned char *copy = sqlite3_malloc64(size ? size : 1);

    if (!copy ||
        sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL) != SQLITE_OK)
        abort();
    memcpy(copy, data, size);
    if (size > 19)
        copy[18] = copy[19] = 1;
    sqlite3_deserialize(db, "main", copy, (sqlite3_int64)size, (sqlite3_int64)size,
                        SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
    return db;
}

/* Binds one value: small numbers mostly, so that rows refer to one another; sometimes a large one, text or
 * NULL. */
static size_t bind_value(sqlite3_stmt *statement, int column, const uint8_t *data, size_t left)
{
    int64_t large = 0;

    if (left == 0 || data[0] < 0xe0) {
        sqlite3_bind_int(statement, column, left ? data[0] : 0);
        return left ? 1 : 0;
    }
    if (data[0] < 0xe8)
        sqlite3_bind_null(statement, column);
    else if (data[0] < 0xf0 && left >= 9) {
        memcpy(&large, data + 1, 8);
        sqlite3_bind_int64(statement, column, large);
        return 9;
    } else if (data[0] < 0xf8 && left >= 2) {
        sqlite3_bind_int64(statement, column, (int64_t)1 << data[1] % 63);
        return 2;
    } else {
        size_t len = left - 1 < data[0] - 0xf7u ? left - 1 : data[0] - 0xf7u;
        sqlite3_bind_text(statement, column, (const char *)data + 1, (int)len, SQLITE_TRANSIENT);
        return len + 1;
    }
    return 1;
}

static sqlite3 *open_rows(const uint8_t *data, size_t size)
{
    sqlite3_stmt *statements[TIDE_SCHEMA_TABLES] = {0};
    sqlite3 *db = NULL;

    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY, NULL) != SQLITE_OK ||
        tide_schema_create(db) != SQLITE_OK)
        abort();
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    for (size_t at = 0; at < size;) {
        size_t table = data[at++] % TIDE_SCHEMA_TABLES;
        if (!statements[table]) {
            char sql[TIDE_SCHEMA_SQL];
            tide_schema_insert((enum tide_schema)table, sql);
            if (sqlite3_prepare_v2(db, sql, -1, &statements[table], NULL) != SQLITE_OK)
                abort();
        }
        for (int i = 1; i <= sqlite3_bind_parameter_count(statements[table]); i++)
            at += bind_value(statements[table], i, data + at, size - at);
        sqlite3_step(statements[table]);
        sqlite3_reset(statements[table]);
    }
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    for (size_t i = 0; i < TIDE_SCHEMA_TABLES; i++)
        sqlite3_finalize(statements[i]);
    return db;
}

/* Everything that sites lead to is there. */
static void follow_sites(const struct tide_history *history)
{
    for (size_t i = 0; i < history->site_count; i++) {
        const struct tide_history_site *site = &history->sites[i];
        const int32_t *frames;
        size_t depth = tide_history_stack(history, site->stack, &frames);
        for (size_t k = 0; k < depth; k++) {
            TIDE_CHECK(frames[k], >=, 0);
            TIDE_CHECK(frames[k], <, history->frame_count);
            TIDE_CHECK_TRUE(history->frames[frames[k]].function != NULL);
        }
        TIDE_CHECK(site->process, <=, history->process_count);
        for (size_t k = 1; k < site->point_count; k++)
            TIDE_CHECK(site->points[k - 1].t_ns, <, site->points[k].t_ns);
    }
}

static void export_everything(const struct tide_answer *answer, struct tide_reader *reader)
{
    static const char *const names[] = {"pprof",        "speedscope",  "collapsed",
                                        "chrome-trace", "openmetrics", "csv"};
    for (size_t i = 0; i < 3 * sizeof names / sizeof *names; i++) {
        struct tide_err err = {{0}, {0}};
        struct tide_export_options options = {
            .at = {i < 6 ? TIDE_MOMENT_END : TIDE_MOMENT_PEAK, 0}, .growth = i >= 12, .rows = i / 6};
        int bad = tide_export_write(tide_export_find(names[i % 6]), answer->history, answer->assessment,
                                    reader, &options, nowhere(), &err);
        TIDE_CHECK(bad == 0 || err.text[0] != '\0', ==, 1);
    }
}

static void compare_with_itself(const struct tide_answer *answer)
{
    for (int between = 0; between < 2; between++) {
        struct tide_err err = {{0}, {0}};
        struct tide_diff_options options = {
            .between = between, .usual = !between, .moments = {{TIDE_MOMENT_PEAK, 0}, {TIDE_MOMENT_END, 0}}};
        struct tide_diff *diff = NULL;
        int bad = tide_diff_new((const struct tide_answer *const[]){answer, answer},
                                (const char *const[]){"a", "b"}, &options, &diff, &err);
        TIDE_CHECK(bad == 0 || err.text[0] != '\0', ==, 1);
        if (bad)
            continue;
        TIDE_CHECK_TRUE(between || diff->site_count == 0);
        TIDE_CHECK(tide_diff_exit_code(diff), !=, 1);
        tide_diff_print(diff, 5, 6, nowhere());
        tide_diff_json(diff, 5, nowhere());
        tide_diff_free(diff);
    }
}

/* A page is small, and has the elements that it is made of and none besides: with call sites there is one
 * more block of data. */
static void make_page(const struct tide_answer *answer)
{
    struct tide_report report = {
        .history = answer->history, .assessment = answer->assessment, .source = "<fuzzed>", .version = "0"};
    struct tide_err err = {{0}, {0}};
    char *text = NULL;
    size_t len = 0, scripts = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        abort();
    int bad = tide_report_write(&report, out, &err);
    fclose(out);
    TIDE_CHECK(bad == 0 || err.text[0] != '\0', ==, 1);
    TIDE_CHECK(len, <, TIDE_REPORT_MOST);
    TIDE_CHECK(strlen(text), ==, len);
    for (const char *at = text; (at = strstr(at, "<script")); at++)
        scripts++;
    if (!bad)
        TIDE_CHECK(scripts == 3 || scripts == 4, ==, 1);
    free(text);
}

static void say_everything(const struct tide_answer *answer)
{
    static const enum tide_blame_by orders[] = {TIDE_BLAME_GROWTH, TIDE_BLAME_PEAK, TIDE_BLAME_END};
    tide_assessment_print(answer->assessment, nowhere());
    tide_assessment_json(answer->assessment, "fuzzed", nowhere());
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct tide_blame_options options = {.by = orders[i], .most = 5};
        struct tide_blame *blame = NULL;
        struct tide_err err = {{0}, {0}};
        if (tide_blame_new(answer->history, answer->assessment, &options, &blame, &err)) {
            TIDE_CHECK_TRUE(err.text[0]);
            continue;
        }
        tide_blame_print(blame, answer->history, 5, 6, nowhere());
        tide_blame_json(blame, answer->history, "fuzzed", nowhere());
        tide_blame_free(blame);
    }
}

static void assess(struct tide_history *history, struct tide_reader *reader)
{
    struct tide_answer answer = {.history = history};
    struct tide_err err = {{0}, {0}};
    if (tide_assess_history(history, NULL, &answer.assessment, &err)) {
        TIDE_CHECK_TRUE(err.text[0]);
        return;
    }
    say_everything(&answer);
    export_everything(&answer, reader);
    compare_with_itself(&answer);
    make_page(&answer);
    tide_assessment_free(answer.assessment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tide_reader *reader = NULL;
    struct tide_history *history = NULL;
    struct tide_arena arena;
    struct tide_summary summary;
    struct tide_err err = {{0}, {0}};

    if (size > 1 << 20)
        return 0;
    bool rows = size > 0 && data[0] == 'R';
    sqlite3 *db = rows ? open_rows(data + 1, size - 1) : open_file(data, size);
    tide_arena_init(&arena, 256 << 20);
    if (tide_reader_adopt(db, "fuzzed", &reader, &err) == 0 &&
        tide_history_new(16 << 20, &history, &err) == 0) {
        (void)tide_reader_meta(reader, TIDE_META_HOST).text;
        int loaded = tide_history_load(history, reader, &err);
        TIDE_CHECK(loaded == 0 || err.text[0] != '\0', ==, 1);
        (void)tide_history_load(history, reader, &err);
        follow_sites(history);
        if (tide_summary_make(history, &arena, &summary, &err) == 0)
            show_everything(&summary, reader);
        if (rows) /* it takes long, and a file that is not all broken is rare */
            assess(history, reader);
    }
    TIDE_CHECK(reader != NULL || err.text[0] != '\0', ==, 1);
    tide_history_free(history);
    tide_reader_free(reader);
    tide_arena_release(&arena);
    return 0;
}
