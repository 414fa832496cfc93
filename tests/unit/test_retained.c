/*
 * test_retained.c - recordings of a process of which it is known what it holds, and what that makes of its
 * verdict.
 */
#include "made_recording.h"

/* Memory of 440 MiB that was mapped at the start by this code is touched, 0.9 MiB at each look. */
static struct tide_assessment *touched_late(struct tide_frame mapped_by, char *text, size_t size)
{
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "java", "java");
    see_heap(&m, id);
    int64_t mapped = add_site(&m, id, TIDE_SITE_MMAP, mapped_by),
            small = add_site(&m, id, TIDE_SITE_MALLOC,
                             (struct tide_frame){.function = "main", .file = "", .module = ""});
    for (int64_t i = 0; i < 300; i++) {
        look(&m, 1, 60 * MIB + i * 900 * 1024);
        sample(&m, id, 60 * MIB + i * 900 * 1024);
        hold(&m, mapped, 440 * MIB, 1);
        hold(&m, small, 9 * MIB, 100);
        hold_in_all(&m, id, 449 * MIB, 100 * 1024);
    }
    return finish(&m, text, size);
}

static void a_buffer_that_a_line_of_the_program_made_fills(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = touched_late(
        (struct tide_frame){.function = "main", .file = "train.py", .line = 3, .python = true, .module = ""},
        text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_PLATEAU);
    assert_true(a->judged[0].filling);
    tide_assessment_free(a);
}

/* sort takes its memory at once and fills it with what it reads: all that is resident is held. */
static void a_buffer_that_was_filled_is_not_looked_for_elsewhere(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "sort", "sort");
    see_heap(&m, id);
    int64_t buffer = add_site(&m, id, TIDE_SITE_MALLOC, line_of("sort.c", 1500, "initbuf"));
    for (int64_t i = 0; i < 300; i++) {
        int64_t touched = (i < 100 ? i : 100) * MIB;
        look(&m, 1, MIB / 4 + touched);
        sample(&m, id, MIB / 4 + touched);
        hold(&m, buffer, 100 * MIB, 1);
        hold_in_all(&m, id, 100 * MIB, 100 * 1024);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_PLATEAU);
    assert_non_null(strstr(text, "KiB not: pages of old blocks are touched only now\n"));
    tide_assessment_free(a);
}

/* A collector's heap takes what it may need and fills it with what it will not give back. */
static void a_heap_that_a_runtime_made_for_itself_leaks(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a =
        touched_late((struct tide_frame){.function = "HeapRegionManager::commit_regions",
                                         .file = "",
                                         .line = TIDE_UNKNOWN,
                                         .module = "/usr/lib/jvm/lib/server/libjvm.so"},
                     text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_int_equal(tide_assessment_exit_code(a), 1);
    assert_non_null(strstr(text, "a runtime's own heap"));
    assert_null(strstr(text, "old blocks"));
    tide_assessment_free(a);
}

/* Memory rises while the program holds 1 MiB, whose lines ask for this much at each look and give it back;
 * the allocator was never asked what it keeps. */
static struct tide_assessment *given_back(int64_t per_look, char *text, size_t size)
{
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "server", "server");
    see_heap(&m, id);
    int64_t site =
        add_site(&m, id, TIDE_SITE_MALLOC, (struct tide_frame){.function = "main", .file = "", .module = ""});
    for (int64_t i = 0; i < 300; i++) {
        look(&m, 1, 10 * MIB + i * 100 * 1024);
        sample(&m, id, 10 * MIB + i * 100 * 1024);
        struct tide_site_sample row = {.tick = m.tick,
                                       .site = site,
                                       .live_bytes = MIB,
                                       .live_blocks = 10,
                                       .total_bytes = MIB + i * per_look,
                                       .total_blocks = 10 + i};
        struct tide_err err;
        ok(tide_writer_site_sample(m.writer, &row, &err), &err);
        hold_in_all(&m, id, MIB, TIDE_UNKNOWN);
    }
    return finish(&m, text, size);
}

static void an_allocator_keeps_what_was_given_back_to_it(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = given_back(2 * MIB, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_RETENTION);
    tide_assessment_free(a);
}

/* A list of losses holds a little more at each step, in the middle of what each step frees. */
static void what_is_held_more_and_more_is_named_beside_what_is_kept(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "python", "train.py");
    see_heap(&m, id);
    for (int64_t i = 0; i < 300; i++) {
        look(&m, 1, 100 * MIB + i * 100 * 1024);
        sample(&m, id, 100 * MIB + i * 100 * 1024);
        hold_in_all(&m, id, 100 * MIB + i * 1024, i * 90 * 1024);
        if (i % 100 == 50)
            mark(&m, id, TIDE_MARK_GAUGE, i * 1024,
                 "held by list `losses`, train.py:8; keep `.item()` of it");
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_RETENTION);
    assert_non_null(strstr(text, "  held by list `losses`, train.py:8; keep `.item()` of it"));
    tide_assessment_free(a);
}

/* Whether memory grows cannot be told yet. That the list does is known. */
static void what_is_held_more_and_more_is_named_beside_what_is_undecided(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "python", "train.py");
    for (int64_t i = 0; i < 24; i++) {
        int64_t bytes = 100 * MIB + i * i % 7 * MIB + i * 300 * 1024;
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, bytes);
        sample(&m, id, bytes);
        if (i % 10 == 5)
            mark(&m, id, TIDE_MARK_GAUGE, i * 1024, "held by variable `total`, train.py:8");
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_UNDECIDED);
    assert_non_null(strstr(text, "  held by variable `total`, train.py:8: it holds more at each census\n"));
    tide_assessment_free(a);
}

/* Stacks of threads that nobody joins, for one. */
static void what_was_never_asked_for_is_kept_by_no_allocator(void **state)
{
    (void)state;
    char text[2048];
    struct tide_assessment *a = given_back(1024, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_non_null(strstr(text, "threads that were never joined"));
    assert_null(strstr(text, "jemalloc"));
    tide_assessment_free(a);
}

static void where_nothing_was_sampled_nothing_is_kept(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "server", "server");
    see_samples(&m, id, 0);
    for (int64_t i = 0; i < 300; i++) {
        look(&m, 1, MIB + i * 100 * 1024);
        sample(&m, id, MIB + i * 100 * 1024);
        hold_in_all(&m, id, 0, TIDE_UNKNOWN);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    tide_assessment_free(a);
}

/* A process that is level has no news of its memory; of what it holds there is. */
static void what_is_held_is_known_until_the_last_look(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "server", "server");
    see_heap(&m, id);
    for (int64_t i = 0; i < 300; i++) {
        int64_t memory = (i < 150 ? 110 : 190) * MIB;
        look(&m, 1, memory);
        if (i < 2 || i == 149 || i == 150)
            sample(&m, id, memory);
        hold_in_all(&m, id, i % 3 ? (i < 150 ? 10 : 90) * MIB : 0, 100 * 1024);
    }
    look(&m, 0, 0);
    end_process(&m, id, 7, 0, "server", "server", 0);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_JUMP);
    assert_true(a->judged[0].retention.crest_rises);
    assert_non_null(
        strstr(text, "rises for a while and is freed again: up to 90.0 MiB now, 10.0 MiB before"));
    tide_assessment_free(a);
}

/* Looks of one step, in every other of which the program holds that much. */
static void step_and_free(struct made *m, int64_t id, int64_t number, int looks, int64_t memory, int64_t held)
{
    mark(m, id, TIDE_MARK_STEP, number, "");
    for (int i = 0; i < looks; i++) {
        look(m, 1, memory);
        sample(m, id, memory);
        hold_in_all(m, id, i % 2 ? held : 0, 100 * 1024);
    }
}

static void end_well(struct made *m, int64_t id)
{
    struct tide_err err;
    look(m, 0, 0);
    end_process(m, id, 7, 0, "python", "train.py", 0);
    ok(tide_writer_meta_integer(m->writer, TIDE_META_EXIT, 0, &err), &err);
}

/* From step 15 on each step asks for more and gives it back. Steps are shorter in the end, and what the
 * program saves behind the last of them is not what it holds in a step. */
static void what_is_held_behind_the_last_step_is_not_held_now(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "python", "train.py");
    see_heap(&m, id);
    for (int64_t i = 0; i < 30; i++)
        step_and_free(&m, id, i, i < 20 ? 8 : 2, (i < 15 ? 110 : 190) * MIB, (i < 15 ? 10 : 90) * MIB);
    for (int i = 0; i < 6; i++) {
        look(&m, 1, 500 * MIB);
        sample(&m, id, 500 * MIB);
        hold_in_all(&m, id, 400 * MIB, 100 * 1024);
    }
    end_well(&m, id);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_JUMP);
    assert_non_null(
        strstr(text, "rises within each step and is freed again: up to 90.0 MiB now, 10.0 MiB before"));
    tide_assessment_free(a);
}

/* One evaluation, in step 45, that took as long as five steps: not each step does that. */
static void what_one_step_held_is_not_said_of_each(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "python", "train.py");
    see_heap(&m, id);
    for (int64_t i = 0; i < 60; i++)
        step_and_free(&m, id, i, i == 45 ? 10 : 2, (i < 45 ? 110 : 190) * MIB, (i == 45 ? 90 : 10) * MIB);
    end_well(&m, id);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_JUMP);
    assert_non_null(
        strstr(text, "holds rises for a while and is freed again: up to 90.0 MiB, last at step 45"));
    assert_null(strstr(text, "within each step"));
    tide_assessment_free(a);
}

/* It holds all that it grew by, and gives that back as it ends: what is read then is no part of the growth.
 */
static void what_is_freed_at_the_end_was_held(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "python", "train.py");
    see_heap(&m, id);
    for (int64_t i = 0; i < 48; i++) {
        int64_t held = i < 47 ? i * 800 * 1024 : 0;
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 10 * MIB + held);
        sample(&m, id, 10 * MIB + held);
        hold_in_all(&m, id, 4 * MIB + held, 100 * 1024);
    }
    look(&m, 0, 0);
    hold_in_all(&m, id, MIB, 100 * 1024); /* read after its death */
    end_process(&m, id, 7, 0, "python", "train.py", 0);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_true(a->judged[0].live_known);
    assert_true(a->judged[0].retention.live_growth > 0.95 * a->judged[0].verdict.growth_bytes);
    assert_null(strstr(text, "% of that"));
    tide_assessment_free(a);
}

/* Cycles wait for a collector that came once: what the program holds rises to 100 MiB, falls to 10, and was
 * rising again when it ended. Its memory stays at the top of the first tooth. */
static void the_next_tooth_of_what_is_held_is_no_leak(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "python", "train.py");
    see_heap(&m, id);
    for (int64_t i = 0; i < 440; i++) {
        int64_t held = 10 * MIB + (i < 300 ? i : i - 300) * 320 * 1024;
        int64_t memory = 20 * MIB + (i < 300 ? i : 300) * 320 * 1024;
        mark(&m, id, TIDE_MARK_STEP, 2 * i, "");
        look(&m, 1, memory);
        sample(&m, id, memory);
        hold_in_all(&m, id, held, memory - held);
    }
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_false(a->judged[0].inside);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_UNDECIDED);
    tide_assessment_free(a);
}

/* A sample now and then, of what rises evenly. */
static void a_share_that_few_samples_tell_has_its_interval(void **state)
{
    (void)state;
    char text[2048];
    struct made m = begin();
    int64_t id = add_process(&m, 7, 0, "train", "train");
    see_samples(&m, id, 512 * 1024);
    for (int64_t i = 0; i < 100; i++) {
        mark(&m, id, TIDE_MARK_STEP, i, "");
        look(&m, 1, 10 * MIB + i * 40 * 1024);
        sample(&m, id, 10 * MIB + i * 40 * 1024);
        hold_in_all(&m, id, 4 * MIB + i / 22 * 512 * 1024, 100 * 1024);
    }
    end_process(&m, id, 7, 0, "train", "train", 0);
    struct tide_assessment *a = finish(&m, text, sizeof text);
    assert_int_equal(a->judged[0].verdict.kind, TIDE_LEAK);
    assert_non_null(strstr(text, "% of that (95 % interval "));
    tide_assessment_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_that_a_line_of_the_program_made_fills),
        cmocka_unit_test(a_buffer_that_was_filled_is_not_looked_for_elsewhere),
        cmocka_unit_test(a_heap_that_a_runtime_made_for_itself_leaks),
        cmocka_unit_test(what_is_held_more_and_more_is_named_beside_what_is_kept),
        cmocka_unit_test(what_is_held_more_and_more_is_named_beside_what_is_undecided),
        cmocka_unit_test(an_allocator_keeps_what_was_given_back_to_it),
        cmocka_unit_test(what_was_never_asked_for_is_kept_by_no_allocator),
        cmocka_unit_test(where_nothing_was_sampled_nothing_is_kept),
        cmocka_unit_test(what_is_held_is_known_until_the_last_look),
        cmocka_unit_test(what_is_held_behind_the_last_step_is_not_held_now),
        cmocka_unit_test(what_one_step_held_is_not_said_of_each),
        cmocka_unit_test(what_is_freed_at_the_end_was_held),
        cmocka_unit_test(the_next_tooth_of_what_is_held_is_no_leak),
        cmocka_unit_test(a_share_that_few_samples_tell_has_its_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
