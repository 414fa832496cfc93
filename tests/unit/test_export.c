/*
 * test_export.c - exports and comparisons when memory runs out: a sentence, and never half an answer that is
 * called whole.
 */
#include "assess/diff.h"
#include "failing_malloc.h"
#include "record/writer.h"
#include "show/export/export.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { STEPS = 60, SITES = 5, ROOM = 1 << 20, ALLOCATIONS_MOST = 4000 };

static char path[64];
static struct tide_answer answer;
static struct tide_reader *reader;

static void put_sites(struct tide_writer *w, int64_t process, int64_t sites[SITES])
{
    for (int i = 0; i < SITES; i++) {
        int64_t frames[2];
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        struct tide_frame f = {.function = name,
                               .file = "/a/t.py",
                               .line = 10 + i,
                               .module = "",
                               .offset = TIDE_UNKNOWN,
                               .python = true};
        struct tide_frame outer = {
            .function = "main", .file = "", .line = TIDE_UNKNOWN, .module = "/bin/m", .offset = 64 * i};
        struct tide_site site = {.process = process, .kind = i % 3 + 1};
        assert_int_equal(tide_writer_frame(w, &f, &frames[0], NULL), 0);
        assert_int_equal(tide_writer_frame(w, &outer, &frames[1], NULL), 0);
        assert_int_equal(tide_writer_stack(w, frames, 2, &site.stack, NULL), 0);
        assert_int_equal(tide_writer_site(w, &site, &sites[i], NULL), 0);
    }
}

static void put_step(struct tide_writer *w, int64_t process, const int64_t sites[SITES], int step)
{
    int64_t id, t_ns = (int64_t)step * 100000000;
    struct tide_tick tick = {.t_ns = t_ns, .processes = 1, .rss_bytes = 1 << 26, .counted_bytes = 1 << 26};
    assert_int_equal(tide_writer_tick(w, &tick, &id, NULL), 0);
    struct tide_sample sample = {.tick = id, .process = process, .anon_bytes = (1 << 26) + (step << 17)};
    assert_int_equal(tide_writer_sample(w, &sample, NULL), 0);
    struct tide_gpu_sample gpu = {.tick = id, .process = process, .bytes = 1 << 30};
    assert_int_equal(tide_writer_gpu(w, &gpu, NULL), 0);
    struct tide_mark marks[] = {
        {t_ns, process, TIDE_MARK_STEP, TIDE_SOURCE_PROGRAM, step, ""},
        {t_ns, process, TIDE_MARK_GAUGE, TIDE_SOURCE_PROGRAM, step, "cache"},
        {t_ns, process, step % 2 ? TIDE_MARK_PHASE_END : TIDE_MARK_PHASE_BEGIN, TIDE_SOURCE_PROGRAM, 0, "p"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        assert_int_equal(tide_writer_mark(w, &marks[i], NULL), 0);
    for (int i = 0; i < SITES; i++) {
        struct tide_site_sample held = {
            id, sites[i], (int64_t)(i + 1) * step << 15, step, (int64_t)step << 20, step};
        assert_int_equal(tide_writer_site_sample(w, &held, NULL), 0);
    }
}

static int set_up(void **state)
{
    struct tide_err err = {0};
    struct tide_writer *w;
    struct tide_process row = {
        .pid = 7, .name = "python3", .command = "", .role = "t.py", .ended_ns = TIDE_UNKNOWN};
    int64_t process, sites[SITES];
    (void)state;
    snprintf(path, sizeof path, "/tmp/test_export.%d.tide", (int)getpid());
    unlink(path);
    assert_int_equal(tide_writer_new(path, &w, &err), 0);
    assert_int_equal(tide_writer_process(w, &row, &process, NULL), 0);
    put_sites(w, process, sites);
    for (int step = 0; step < STEPS; step++)
        put_step(w, process, sites, step);
    assert_int_equal(tide_writer_free(w, NULL), 0);
    if (tide_answer_init(&answer, path, NULL, &err) || tide_reader_new(path, &reader, &err))
        fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_reader_free(reader);
    tide_answer_release(&answer);
    return unlink(path);
}

#if HAVE_FAILING_MALLOC
static const char *const formats[] = {"pprof",        "speedscope",  "collapsed",
                                      "chrome-trace", "openmetrics", "csv"};

struct written {
    char *text; /* ROOM bytes */
    size_t len;
};

/* 0 or -1, as the export has it; what was written is in *ret. */
static int export(const char *name, enum tide_export_rows rows, long good, struct written *ret,
                  struct tide_err *err, bool *ret_failed)
{
    static char buffer[4096];
    struct tide_export_options options = {.at = {TIDE_MOMENT_END, NAN}, .rows = rows};
    memset(ret->text, 0, ROOM);
    FILE *out = fmemopen(ret->text, ROOM, "w");
    setvbuf(out, buffer, _IOFBF, sizeof buffer);
    failing_arm(good);
    int status = tide_export_write(tide_export_find(name), answer.history, answer.assessment, reader,
                                   &options, out, err);
    *ret_failed = failing_disarm();
    ret->len = (size_t)ftell(out);
    fclose(out);
    return status;
}
#endif

static void every_format_is_written_whole_or_refused(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    struct written whole = {malloc(ROOM), 0}, got = {malloc(ROOM), 0};
    struct tide_err err;
    bool failed;
    for (size_t f = 0; f < sizeof formats / sizeof *formats + 2; f++) {
        enum tide_export_rows rows = f < 6    ? TIDE_EXPORT_PROCESSES
                                     : f == 6 ? TIDE_EXPORT_SITES
                                              : TIDE_EXPORT_MARKS;
        const char *name = formats[f < 6 ? f : 5];
        assert_int_equal(export(name, rows, ALLOCATIONS_MOST, &whole, &err, &failed), 0);
        assert_false(failed);
        assert_true(whole.len > 100);
        long good = 0;
        for (failed = true; failed && good < ALLOCATIONS_MOST; good++) {
            err = (struct tide_err){{0}, {0}};
            int status = export(name, rows, good, &got, &err, &failed);
            if (status)
                assert_true(err.text[0] != 0);
            else if (got.len != whole.len || memcmp(got.text, whole.text, got.len) != 0)
                fail_msg("%s: after %ld allocations another answer, called whole", name, good);
        }
        assert_false(failed);
    }
    free(whole.text);
    free(got.text);
#else
    skip();
#endif
}

static void a_comparison_is_whole_or_refused(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    const struct tide_answer *both[2] = {&answer, &answer};
    const char *const sources[2] = {"a", "b"};
    for (int between = 0; between < 2; between++) {
        struct tide_diff_options options = {.between = between,
                                            .usual = !between,
                                            .moments = {{TIDE_MOMENT_STEP, 10}, {TIDE_MOMENT_END, NAN}}};
        bool failed = true;
        for (long good = 0; failed && good < ALLOCATIONS_MOST; good++) {
            struct tide_err err = {{0}, {0}};
            struct tide_diff *diff = NULL;
            failing_arm(good);
            int status = tide_diff_new(both, sources, &options, &diff, &err);
            failed = failing_disarm();
            assert_int_equal(status == 0, diff != NULL);
            if (status)
                assert_true(err.text[0] != 0);
            else
                assert_int_equal(diff->site_count, between ? SITES : 0);
            tide_diff_free(diff);
        }
        assert_false(failed);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_written_whole_or_refused),
        cmocka_unit_test(a_comparison_is_whole_or_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
