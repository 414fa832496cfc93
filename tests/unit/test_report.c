/*
 * test_report.c - the parts of a page: text that cannot act, lines that stay short, stacks merged into a
 * tree, and a page that is whole or not there.
 */
#include "assess/assessment.h"
#include "failing_malloc.h"
#include "record/writer.h"
#include "base/json.h"
#include "show/report/page_marks.h"
#include "show/report/page_series.h"
#include "show/report/page_sites.h"
#include "show/report/report.h"
#include "show/report/svg.h"
#include "show/text/html.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MIB    ((int64_t)1 << 20)
#define SECOND INT64_C(1000000000)

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

/* --- text ---------------------------------------------------------------------------------------------- */

static void assert_html(const char *text, size_t most, const char *expected)
{
    char *got = NULL;
    size_t len;
    FILE *out = open_memstream(&got, &len);
    tide_html_text(out, "", text, most, "");
    fclose(out);
    assert_string_equal(got, expected);
    free(got);
}

static void markup_in_text_becomes_entities(void **state)
{
    (void)state;
    assert_html("<b a='1' c=\"2\">&amp;</b>", 0,
                "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;&lt;/b&gt;");
    assert_html("", 0, "");
    assert_html("caf\u00e9 \u2713", 0, "caf\u00e9 \u2713");
}

static void what_would_drive_a_terminal_or_turn_text_round_is_spelled_out(void **state)
{
    (void)state;
    assert_html("a\x1b[31m\r\n", 0, "a\\x1b[31m\\x0d\\x0a");
    assert_html("x\u202ey\u2028\u2066", 0, "x\\u{202e}y\\u{2028}\\u{2066}");
    assert_html("bad\xff\xc3(", 0, "bad\\xff\\xc3(");
}

static void long_text_is_cut_between_characters(void **state)
{
    (void)state;
    assert_html("abcdef", 6, "abcdef");
    assert_html("abcdef", 4, "abcd..");
    assert_html("ab\u20accd", 3, "ab..");
    assert_html("<<<<", 2, "&lt;&lt;..");
}

static void json_in_a_page_cannot_end_its_element(void **state)
{
    (void)state;
    struct tide_json json;
    char *got = NULL;
    size_t len;
    FILE *out = open_memstream(&got, &len);
    tide_json_init(&json, out, true);
    json.in_page = true;
    tide_json_object(&json, NULL);
    tide_json_text(&json, "a", "</script><!--&\xff<");
    tide_json_end(&json);
    fclose(out);
    assert_string_equal(got, "{\"a\":\"\\u003c/script\\u003e\\u003c!--\\u0026\xef\xbf\xbd\\u003c\"}\n");
    free(got);
}

/* --- lines --------------------------------------------------------------------------------------------- */

static void a_scale_has_a_few_round_lines(void **state)
{
    (void)state;
    assert_true(tide_report_tick(150. * MIB) == 50. * MIB);
    assert_true(tide_report_tick(1.7 * 1024 * MIB) == 0.5 * 1024 * MIB);
    assert_true(tide_report_tick(1) <= 1);
    for (double bytes = 1; bytes < 1e18; bytes *= 1.37) {
        double lines = ceil(bytes / tide_report_tick(bytes));
        assert_true(lines >= 2 && lines <= 10);
    }
}

static void a_long_line_keeps_its_lowest_and_highest(void **state)
{
    (void)state;
    enum { COUNT = 50000, MOST = 600 };
    static struct tide_report_point points[COUNT];
    for (int i = 0; i < COUNT; i++)
        points[i] = (struct tide_report_point){i * SECOND, 1000 + i % 7};
    points[31234].bytes = 9999;
    points[777].bytes = 1;
    struct tide_report_curve line = {points, COUNT};
    tide_report_curve_thin(&line, MOST);
    assert_true(line.count <= MOST + 3 && line.count > MOST / 4);
    bool high = false, low = false;
    for (size_t i = 0; i < line.count; i++) {
        high = high || line.points[i].bytes == 9999;
        low = low || line.points[i].bytes == 1;
        assert_true(i == 0 || line.points[i].t_ns > line.points[i - 1].t_ns);
    }
    assert_true(high && low);
    size_t before = line.count;
    tide_report_curve_thin(&line, before);
    assert_int_equal(line.count, before);
}

/* --- a recording --------------------------------------------------------------------------------------- */

struct scene {
    char path[64];
    struct tide_answer answer;
    struct tide_writer *writer;
    struct tide_err err;
    int64_t process;
};

static int64_t add_site(struct scene *s, const int *lines, size_t depth)
{
    int64_t frames[8], stack, site;
    for (size_t i = 0; i < depth; i++) {
        struct tide_frame f = {.function = "<f>",
                               .file = "/src/a.py",
                               .line = lines[i],
                               .module = "",
                               .offset = TIDE_UNKNOWN,
                               .python = true};
        ok(tide_writer_frame(s->writer, &f, &frames[i], &s->err), &s->err);
    }
    ok(tide_writer_stack(s->writer, frames, depth, &stack, &s->err), &s->err);
    ok(tide_writer_site(s->writer, &(struct tide_site){0, s->process, TIDE_SITE_MALLOC, stack}, &site,
                        &s->err),
       &s->err);
    return site;
}

/* 120 steps of a second each. Four sites: 1 <- 10 <- 99 leaks 1 MiB per step, 2 <- 10 <- 99 holds 50 MiB, 3
 * <- 99 comes and goes, 4 <- 99 holds 4 KiB. A phase in every step. */
static void set_scene(struct scene *s)
{
    *s = (struct scene){.path = "/tmp/tide-report-XXXXXX"};
    int fd = mkstemp(s->path);
    assert_true(fd >= 0);
    close(fd);
    unlink(s->path);
    ok(tide_writer_new(s->path, &s->writer, &s->err), &s->err);
    struct tide_process p = {.pid = 7,
                             .start_ticks = 1,
                             .name = "<py>",
                             .command = "",
                             .role = "",
                             .ended_ns = TIDE_UNKNOWN,
                             .rank = TIDE_UNKNOWN};
    ok(tide_writer_process(s->writer, &p, &s->process, &s->err), &s->err);
    int64_t sites[4] = {add_site(s, (int[]){1, 10, 99}, 3), add_site(s, (int[]){2, 10, 99}, 3),
                        add_site(s, (int[]){3, 99}, 2), add_site(s, (int[]){4, 99}, 2)};
    struct tide_heap_status on = {.process = s->process, .state = "on", .interval_bytes = MIB / 2};
    ok(tide_writer_heap_status(s->writer, &on, &s->err), &s->err);
    for (int i = 0; i < 120; i++) {
        struct tide_tick tick = {.t_ns = i * SECOND,
                                 .processes = 1,
                                 .rss_bytes = (100 + i) * MIB,
                                 .counted_bytes = (100 + i) * MIB,
                                 .cgroup_bytes = TIDE_UNKNOWN,
                                 .cgroup_peak_bytes = TIDE_UNKNOWN,
                                 .pressure_ppm = TIDE_UNKNOWN,
                                 .available_bytes = TIDE_UNKNOWN,
                                 .share_ppm = TIDE_UNKNOWN};
        int64_t id;
        ok(tide_writer_tick(s->writer, &tick, &id, &s->err), &s->err);
        ok(tide_writer_sample(s->writer,
                              &(struct tide_sample){id, s->process, (100 + i) * MIB, 0, 0, 0, 0, 1, 0, 0},
                              &s->err),
           &s->err);
        int64_t held[4] = {(i + 1) * MIB, 50 * MIB, i % 10 == 5 ? 20 * MIB : 0, 4096};
        for (int k = 0; k < 4; k++)
            ok(tide_writer_site_sample(
                   s->writer, &(struct tide_site_sample){id, sites[k], held[k], i + 1, held[k], i + 1},
                   &s->err),
               &s->err);
        struct tide_mark step = {i * SECOND, s->process, TIDE_MARK_STEP, TIDE_SOURCE_PROGRAM, i, ""};
        ok(tide_writer_mark(s->writer, &step, &s->err), &s->err);
        for (int k = 0; k < 20; k++) {
            struct tide_mark phase = {
                i * SECOND + k * SECOND / 20, s->process, k % 2 ? TIDE_MARK_PHASE_END : TIDE_MARK_PHASE_BEGIN,
                TIDE_SOURCE_PROGRAM,          0,          "</p>"};
            ok(tide_writer_mark(s->writer, &phase, &s->err), &s->err);
        }
    }
    ok(tide_writer_free(s->writer, &s->err), &s->err);
    ok(tide_answer_init(&s->answer, s->path, NULL, &s->err), &s->err);
}

static void clear_scene(struct scene *s)
{
    tide_answer_release(&s->answer);
    unlink(s->path);
}

static void check_tree(const struct tide_report_sites *sites)
{
    for (size_t i = 0; i < sites->node_count; i++) {
        assert_true(sites->nodes[i].parent < (int32_t)i);
        assert_in_range(sites->nodes[i].label, 0, sites->label_count - 1);
    }
    for (size_t i = 0; i < sites->site_count; i++)
        assert_in_range(sites->sites[i].node, 0, sites->node_count - 1);
    for (size_t i = 1; i < sites->moment_count; i++)
        assert_true(sites->moments_ns[i] > sites->moments_ns[i - 1]);
}

static int64_t sum_at(const struct tide_report_sites *sites, size_t moment)
{
    int64_t sum = 0;
    for (size_t i = 0; i < sites->site_count; i++)
        sum += sites->sites[i].values[moment];
    return sum;
}

static void stacks_share_their_outer_frames(void **state)
{
    (void)state;
    struct scene s;
    struct tide_arena arena;
    struct tide_report_sites sites;
    set_scene(&s);
    tide_arena_init(&arena, (size_t)64 << 20);
    ok(tide_report_sites_make(s.answer.history, s.answer.assessment, NULL, NULL, 0, 100, &arena, &sites,
                              &s.err),
       &s.err);
    check_tree(&sites);
    /* The process, 99, 10 below it, and the four innermost frames. */
    assert_int_equal(sites.node_count, 7);
    assert_int_equal(sites.label_count, 7);
    assert_int_equal(sites.site_count, 4);
    assert_int_equal(sites.left_out, 0);
    assert_string_equal(sites.labels[0].text, "<py>[7]");
    assert_int_equal(sites.labels[0].kind, TIDE_LABEL_PROCESS);
    tide_arena_release(&arena);
    clear_scene(&s);
}

static void what_has_no_place_of_its_own_is_not_lost(void **state)
{
    (void)state;
    struct scene s;
    struct tide_arena arena;
    struct tide_report_sites all, few;
    struct tide_blame *blame;
    struct tide_blame_options growth = {.by = TIDE_BLAME_GROWTH, .from_x = NAN, .to_x = NAN, .most = 10};
    set_scene(&s);
    tide_arena_init(&arena, (size_t)64 << 20);
    const struct tide_history *h = s.answer.history;
    ok(tide_blame_new(h, s.answer.assessment, &growth, &blame, &s.err), &s.err);
    ok(tide_report_sites_make(h, s.answer.assessment, blame, NULL, 0, 100, &arena, &all, &s.err), &s.err);
    ok(tide_report_sites_make(h, s.answer.assessment, blame, NULL, 0, 1, &arena, &few, &s.err), &s.err);
    check_tree(&few);
    assert_int_equal(few.site_count, 2);
    assert_int_equal(few.left_out, 3);
    assert_true(few.sites[0].culprit &&
                !few.sites[1].culprit); /* the leak stays, though others held more at first */
    assert_int_equal(few.sites[1].merged, 3);
    assert_int_equal(few.labels[few.nodes[few.sites[1].node].label].kind, TIDE_LABEL_REST);
    for (size_t i = 0; i < all.moment_count; i++)
        assert_int_equal(sum_at(&all, i), sum_at(&few, i));
    tide_blame_free(blame);
    tide_arena_release(&arena);
    clear_scene(&s);
}

static void moments_reach_from_the_first_look_to_the_last_and_hold_the_peak(void **state)
{
    (void)state;
    struct scene s;
    struct tide_arena arena;
    struct tide_report_sites sites;
    int64_t extra[3] = {5 * SECOND, 5 * SECOND, 77 * SECOND + 5};
    set_scene(&s);
    tide_arena_init(&arena, (size_t)64 << 20);
    ok(tide_report_sites_make(s.answer.history, s.answer.assessment, NULL, extra, 3, 100, &arena, &sites,
                              &s.err),
       &s.err);
    assert_int_equal(sites.moments_ns[0], 0);
    assert_int_equal(sites.moments_ns[sites.moment_count - 1], 119 * SECOND);
    assert_true(sites.moment_count <= TIDE_REPORT_MOMENTS + TIDE_REPORT_EXTRA + 3);
    bool found = false;
    for (size_t i = 0; i < sites.moment_count; i++) {
        found = found || sites.moments_ns[i] == extra[2];
        assert_true(sum_at(&sites, i) <= sum_at(&sites, sites.peak));
    }
    assert_true(found);
    assert_int_equal(sites.moments_ns[sites.peak],
                     115 * SECOND); /* the last time that the third site held something */
    tide_arena_release(&arena);
    clear_scene(&s);
}

static void phases_of_every_step_are_merged_until_they_are_few(void **state)
{
    (void)state;
    enum { BEGUN = 20000 };
    struct tide_history h = {.name_count = 1, .names = (const char *[]){"forward"}};
    h.marks = calloc(2 * BEGUN, sizeof *h.marks);
    assert_non_null(h.marks);
    for (int i = 0; i < 2 * BEGUN; i++)
        h.marks[i] = (struct tide_history_mark){
            .t_ns = i * SECOND, .kind = i % 2 ? TIDE_MARK_PHASE_END : TIDE_MARK_PHASE_BEGIN, .name = 0};
    h.mark_count = 2 * BEGUN;
    struct tide_summary summary = {.history = &h, .last_ns = 2 * BEGUN * SECOND};
    struct tide_report_marks marks;
    struct tide_arena arena;
    struct tide_err err;
    tide_arena_init(&arena, (size_t)64 << 20);
    assert_int_equal(tide_phases_find(&h, &arena, &summary.told), 0);
    ok(tide_report_marks_make(&summary, &arena, &marks, &err), &err);
    assert_in_range(marks.span_count, 1, 1500);
    assert_true(marks.merged_ns > SECOND);
    assert_int_equal(marks.spans[0].from_ns, 0);
    assert_int_equal(marks.spans[marks.span_count - 1].to_ns, (2 * BEGUN - 1) * SECOND);
    tide_arena_release(&arena);
    free(h.marks);
}

/* --- the page ------------------------------------------------------------------------------------------ */

static char *page_of(struct scene *s, size_t *ret_len)
{
    struct tide_report report = {.history = s->answer.history,
                                 .assessment = s->answer.assessment,
                                 .source = "</title><script>",
                                 .version = "0"};
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_len);
    int bad = out ? tide_report_write(&report, out, &s->err) : -1;
    if (out)
        bad = fclose(out) || bad;
    if (!bad)
        return text;
    free(text);
    return NULL;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    while ((text = strstr(text, word))) {
        count++;
        text += strlen(word);
    }
    return count;
}

static void a_page_has_its_own_scripts_and_no_other(void **state)
{
    (void)state;
    struct scene s;
    size_t len;
    set_scene(&s);
    char *page = page_of(&s, &len);
    assert_non_null(page);
    assert_true(len < TIDE_REPORT_MOST);
    assert_int_equal(strlen(page), len);
    assert_non_null(strstr(page, TIDE_REPORT_GENERATOR));
    assert_true(strstr(page, TIDE_REPORT_GENERATOR) - page < 400);
    /* Two data blocks, the library, the script; neither of these may end early. */
    assert_int_equal(count_of(page, "<script"), 4);
    assert_int_equal(count_of(page, "</script"), 4);
    assert_int_equal(count_of(page, "<!--"), 0);
    assert_int_equal(count_of(page, "\r"), 0); /* a browser would read another text than was hashed */
    assert_int_equal(count_of(page, "'sha256-"), 3);
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_int_equal(strcmp(page + len - 8, "</html>\n"), 0);
    free(page);
    clear_scene(&s);
}

#if HAVE_FAILING_MALLOC
static void a_page_is_made_whole_or_refused_when_memory_runs_out(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    struct scene s;
    size_t len, whole_len;
    set_scene(&s);
    char *whole = page_of(&s, &whole_len);
    assert_non_null(whole);
    bool failed = true;
    size_t refused = 0;
    for (long good = 0; failed; good += 1 + good / 64) {
        failing_arm(good);
        char *page = page_of(&s, &len);
        failed = failing_disarm();
        refused += !page;
        if (page) {
            assert_int_equal(len, whole_len);
            assert_memory_equal(page, whole, len);
        }
        free(page);
    }
    assert_true(refused > 10);
    free(whole);
    clear_scene(&s);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markup_in_text_becomes_entities),
        cmocka_unit_test(what_would_drive_a_terminal_or_turn_text_round_is_spelled_out),
        cmocka_unit_test(long_text_is_cut_between_characters),
        cmocka_unit_test(json_in_a_page_cannot_end_its_element),
        cmocka_unit_test(a_scale_has_a_few_round_lines),
        cmocka_unit_test(a_long_line_keeps_its_lowest_and_highest),
        cmocka_unit_test(stacks_share_their_outer_frames),
        cmocka_unit_test(what_has_no_place_of_its_own_is_not_lost),
        cmocka_unit_test(moments_reach_from_the_first_look_to_the_last_and_hold_the_peak),
        cmocka_unit_test(phases_of_every_step_are_merged_until_they_are_few),
        cmocka_unit_test(a_page_has_its_own_scripts_and_no_other),
#if HAVE_FAILING_MALLOC
        cmocka_unit_test(a_page_is_made_whole_or_refused_when_memory_runs_out),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
