/*
 * test_blame_joined.c - call sites that are one culprit: they meet in one allocator, look the same, or are
 * one line of several processes.
 */
#include "blamed.h"

/* Three workers leak by the same two lines. The verdict is about all of them, and so is
 * each culprit; the shares are of what all of them lose. */
static void one_line_of_several_workers_is_one_culprit(void **state)
{
    (void)state;
    char text[4096];
    struct made m = begin();
    int64_t parent = add_process(&m, 100, 0, "python", "train.py"), worker[3], item[3], tensor[3];
    for (int64_t w = 0; w < 3; w++) {
        worker[w] = add_process(&m, 101 + w, parent, "python", "pt_data_worker");
        see_heap(&m, worker[w]);
        item[w] = add_site(&m, worker[w], TIDE_SITE_MALLOC, line_of("data.py", 31, "__getitem__"));
        tensor[w] = add_site(&m, worker[w], TIDE_SITE_MALLOC, line_of("data.py", 44, "decode"));
    }
    for (int64_t i = 0; i < 300; i++) {
        mark(&m, parent, TIDE_MARK_STEP, i, "");
        look(&m, 4, 250 * MIB + i * 6 * MIB / 4);
        sample(&m, parent, 100 * MIB);
        for (int64_t w = 0; w < 3; w++) {
            sample(&m, worker[w], 50 * MIB + i * MIB / 2);
            hold(&m, item[w], i * 2 * MIB / 5, i);
            hold(&m, tensor[w], i * MIB / 10, i);
        }
    }
    struct tide_answer answer = finish_answer(&m);
    assert_int_equal(answer.assessment->judged[0].subject, TIDE_SUBJECT_ROLE);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 2);
    const struct tide_culprit *first = &blame->culprits[0];
    assert_string_equal(first->process_name, "3 x pt_data_worker");
    assert_int_equal(first->caller_count, 0);
    assert_true(fabs(first->bytes_per_x / (6 * MIB / 5) - 1) < 0.02);
    assert_true(fabs(first->share - 0.8) < 0.02 && fabs(first[1].share - 0.2) < 0.02);
    assert_non_null(strstr(print_blame(blame, &answer, text, sizeof text), "80 % of the growth"));
    forget(blame, &answer);
}

/* Three callers of one function that keeps what it hands out. */
static void add_callers(struct made *m, int64_t process, int64_t site[3])
{
    static const char *const callers[] = {"embed", "attend", "project"};
    for (int i = 0; i < 3; i++) {
        struct tide_frame frames[] = {
            line_of("arena.py", 7, "chunk_new"), line_of("arena.py", 19, "arena_alloc"),
            line_of("model.py", 10 + i, callers[i]), line_of("train.py", 50, "main")};
        site[i] = add_stack(m, process, TIDE_SITE_MALLOC, frames, 4);
    }
}

static void sites_that_meet_in_one_allocator_are_one_culprit(void **state)
{
    (void)state;
    char text[4096], *at;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py"), site[3];
    see_heap(&m, id);
    add_callers(&m, id, site);
    for (int64_t i = 0; i < 300; i++) {
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 100 * MIB + i * MIB);
        sample(&m, id, 100 * MIB + i * MIB);
        hold(&m, site[0], i * MIB / 2, i);
        hold(&m, site[1], i * MIB / 4, i);
        hold(&m, site[2], i * MIB / 4, i);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 1);
    assert_true(blame->culprits[0].share > 0.95);
    assert_true(fabs(blame->culprits[0].bytes_per_x / MIB - 1) < 0.05);
    assert_int_equal(blame->culprits[0].caller_count, 3);
    print_blame(blame, &answer, text, sizeof text);
    assert_non_null(at = strstr(text, "arena.py:19 arena_alloc"));
    assert_non_null(at = strstr(at, "arena.py:7 chunk_new"));
    assert_null(strstr(at + 1, "arena.py:7"));
    assert_non_null(strstr(at, "50 %  model.py:10 embed"));
    assert_non_null(strstr(at, "25 %  model.py:11 attend"));
    forget(blame, &answer);
}

/* One caller leaks; of the other, which jumps twice, it is not decided. */
static void a_culprit_of_several_sites_grows_at_the_rate_of_its_share(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py"), site[3];
    see_heap(&m, id);
    add_callers(&m, id, site);
    for (int64_t i = 0; i < 300; i++) {
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 100 * MIB + i * MIB);
        sample(&m, id, 100 * MIB + i * MIB);
        hold(&m, site[0], i * MIB / 2, i);
        hold(&m, site[1], i < 150 ? 0 : i < 220 ? 30 * MIB : 70 * MIB, i);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    const struct tide_culprit *c = &blame->culprits[0];
    assert_int_equal(blame->count, 1);
    assert_int_equal(c->caller_count, 2);
    assert_true(c->share > 0.7 && c->share < 0.8);
    assert_true(fabs(c->bytes_per_x / MIB - c->share) < 0.02);
    assert_true(c->on.verdict.slope_low <= c->bytes_per_x && c->on.verdict.slope_high >= c->bytes_per_x);
    forget(blame, &answer);
}

/* A runtime that maps its heap in one function for two of its callers, without a line of the program's own.
 */
static void sites_that_look_the_same_are_one_culprit(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "java", "java"), site[3];
    see_heap(&m, id);
    for (int i = 0; i < 3; i++) {
        struct tide_frame frames[6];
        for (int k = 0; k < 6; k++)
            frames[k] = (struct tide_frame){.function = k == 4 && i == 2 ? "reserve" : "commit",
                                            .file = "",
                                            .module = "/usr/lib/libjvm.so",
                                            .offset = 100 * i + k};
        site[i] = add_stack(&m, id, TIDE_SITE_MMAP, frames, 6);
    }
    for (int64_t i = 0; i < 300; i++) {
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 100 * MIB + i * MIB);
        sample(&m, id, 100 * MIB + i * MIB);
        hold(&m, site[0], i * MIB / 2, i);
        hold(&m, site[1], i * MIB / 4, i);
        hold(&m, site[2], i * MIB / 4, i);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame *blame = blame_growth(&answer);
    assert_int_equal(blame->count, 2);
    assert_true(fabs(blame->culprits[0].bytes_per_x / MIB - 0.75) < 0.05);
    assert_int_equal(blame->culprits[0].caller_count, 0);
    forget(blame, &answer);
}

/* The same where it is freed again within each step. */
static void so_are_those_of_a_rise(void **state)
{
    (void)state;
    struct made m = begin();
    int64_t id = add_process(&m, 100, 0, "python", "train.py"), site[3];
    see_heap(&m, id);
    add_callers(&m, id, site);
    for (int64_t i = 0; i < 300; i++) {
        int64_t height = i % 3 ? (i < 150 ? 10 : 90) * MIB : 0, memory = (i < 150 ? 110 : 190) * MIB;
        look(&m, 1, memory);
        sample(&m, id, memory);
        hold(&m, site[0], height / 2, 10);
        hold(&m, site[1], height / 2 - height / 1000, 10);
        hold(&m, site[2], height / 1000, 10); /* not worth a line */
        hold_in_all(&m, id, height, 100 * 1024);
    }
    struct tide_answer answer = finish_answer(&m);
    struct tide_blame_options options = {.by = TIDE_BLAME_VERDICT, .most = 3};
    struct tide_blame *blame;
    struct tide_err err;
    ok(tide_blame_new(answer.history, answer.assessment, &options, &blame, &err), &err);
    assert_int_equal(blame->by, TIDE_BLAME_RISE);
    assert_int_equal(blame->count, 1);
    assert_true(blame->culprits[0].bytes == 80 * MIB);
    assert_int_equal(blame->culprits[0].caller_count, 2);
    assert_true(blame->culprits[0].callers[0].share == 0.5);
    forget(blame, &answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_of_several_workers_is_one_culprit),
        cmocka_unit_test(sites_that_meet_in_one_allocator_are_one_culprit),
        cmocka_unit_test(a_culprit_of_several_sites_grows_at_the_rate_of_its_share),
        cmocka_unit_test(sites_that_look_the_same_are_one_culprit),
        cmocka_unit_test(so_are_those_of_a_rise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
