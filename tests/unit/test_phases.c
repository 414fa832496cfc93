/*
 * test_phases.c - begin and end marks as phases: each rule of phases.h.
 */
#include "assess/phases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { MARKS = 16, PROCESSES = 2 };

/* A history that is told as a text: "B" and "E" begin and end the phase in the lower case letter behind them,
 * of process 1, or of process 2 behind a "2". Mark i is at i * 10 ns. */
struct told {
    struct tide_history_process processes[PROCESSES];
    struct tide_history_mark marks[MARKS];
    const char *names[3];
    struct tide_history h;
    struct tide_arena arena;
    struct tide_phases phases;
};

static void tell(struct told *t, const char *text)
{
    *t = (struct told){.names = {"a", "b", "c"}};
    for (int i = 0; i < PROCESSES; i++)
        t->processes[i].row = (struct tide_process){.id = i + 1, .ended_ns = TIDE_UNKNOWN};
    size_t count = 0;
    for (const char *at = text; *at; count++) {
        int64_t process = *at == '2' ? 2 : 1;
        at += process - 1;
        assert_true(count < MARKS && (at[0] == 'B' || at[0] == 'E'));
        t->marks[count] =
            (struct tide_history_mark){.t_ns = 10 * (int64_t)count,
                                       .process = process,
                                       .kind = at[0] == 'B' ? TIDE_MARK_PHASE_BEGIN : TIDE_MARK_PHASE_END,
                                       .name = at[1] - 'a'};
        at += 2;
    }
    t->h = (struct tide_history){.processes = t->processes,
                                 .process_count = PROCESSES,
                                 .marks = t->marks,
                                 .mark_count = count,
                                 .names = t->names,
                                 .name_count = 3};
    tide_arena_init(&t->arena, 1 << 20);
    assert_int_equal(tide_phases_find(&t->h, &t->arena, &t->phases), 0);
}

static void assert_phase(const struct told *t, size_t i, int64_t from, int64_t to, bool ended)
{
    assert_true(i < t->phases.count);
    assert_int_equal(t->phases.all[i].from_ns, from);
    assert_int_equal(t->phases.all[i].to_ns, to);
    assert_int_equal(t->phases.all[i].ended, ended);
}

static void an_end_ends_the_one_of_its_name_that_began_last(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "BaBbBaEaEaEb");
    assert_int_equal(t.phases.count, 3);
    assert_phase(&t, 0, 0, 40, true);
    assert_phase(&t, 1, 10, 50, true);
    assert_phase(&t, 2, 20, 30, true);
    assert_int_equal(t.phases.by_end[0], 2);
    assert_int_equal(t.phases.by_end[1], 0);
    assert_int_equal(t.phases.by_end[2], 1);
    assert_true(t.phases.all[0].first && t.phases.all[1].first && !t.phases.all[2].first);
    tide_arena_release(&t.arena);
}

static void an_end_ends_no_phase_of_another_process(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "Ba2BaEa2Ea");
    assert_phase(&t, 0, 0, 20, true);
    assert_phase(&t, 1, 10, 30, true);
    assert_int_equal(t.phases.all[1].process, 2);
    assert_true(t.phases.all[1].first);
    tide_arena_release(&t.arena);
}

static void an_end_without_a_begin_says_nothing(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "EaBaEbEaEa");
    assert_int_equal(t.phases.count, 1);
    assert_phase(&t, 0, 10, 30, true);
    tide_arena_release(&t.arena);
}

static void a_phase_that_runs_lasts_to_the_end_of_the_recording(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "BaBbEb");
    assert_phase(&t, 0, 0, INT64_MAX, false);
    assert_phase(&t, 1, 10, 20, true);
    assert_ptr_equal(tide_phases_at(&t.phases, 0, 1000), &t.phases.all[0]);
    tide_arena_release(&t.arena);
}

static void a_phase_left_open_ends_with_its_process_and_runs_as_that_dies(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "Ba2Bb");
    t.processes[0].row.ended_ns = 50;
    assert_int_equal(tide_phases_find(&t.h, &t.arena, &t.phases), 0);
    assert_phase(&t, 0, 0, 50, false);
    assert_ptr_equal(tide_phases_at(&t.phases, 1, 50), &t.phases.all[0]);
    assert_null(tide_phases_at(&t.phases, 1, 51));
    assert_ptr_equal(tide_phases_at(&t.phases, 0, 51), &t.phases.all[1]);
    tide_arena_release(&t.arena);
}

static void a_phase_whose_end_is_lost_ends_where_the_next_of_its_name_begins(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "BaBbEbBaEaBaEa");
    assert_phase(&t, 0, 0, 30, false);
    assert_phase(&t, 2, 30, 40, true);
    assert_phase(&t, 3, 50, 60, true);
    assert_int_equal(t.phases.by_end[3], 0);
    tide_arena_release(&t.arena);
}

static void the_innermost_phase_of_a_moment_is_the_one_that_began_last(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "BaBbEbEa");
    assert_null(tide_phases_at(&t.phases, 0, -1));
    assert_int_equal(tide_phases_at(&t.phases, 0, 0)->name, 0);
    assert_int_equal(tide_phases_at(&t.phases, 0, 10)->name, 1);
    assert_int_equal(tide_phases_at(&t.phases, 0, 19)->name, 1);
    assert_int_equal(tide_phases_at(&t.phases, 0, 20)->name, 0);
    assert_null(tide_phases_at(&t.phases, 0, 30));
    assert_null(tide_phases_at(&t.phases, 2, 10));
    tide_arena_release(&t.arena);
}

static void phases_of_one_name_that_overlap_are_one_stretch(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "Ba2BaEaBbEb2EaBaEa");
    assert_int_equal(t.phases.stretch_count, 3);
    const struct tide_stretch *s = t.phases.stretches;
    assert_true(s[0].name == 0 && s[0].from_ns == 0 && s[0].to_ns == 50 && s[0].ended);
    assert_true(s[1].name == 1 && s[1].from_ns == 30 && s[1].to_ns == 40);
    assert_true(s[2].name == 0 && s[2].from_ns == 60 && s[2].to_ns == 70);
    tide_arena_release(&t.arena);
}

static void marks_without_a_known_name_are_left_out(void **state)
{
    (void)state;
    struct told t;
    tell(&t, "BaEa");
    t.marks[0].name = 3;
    t.marks[1].name = -1;
    assert_int_equal(tide_phases_find(&t.h, &t.arena, &t.phases), 0);
    assert_int_equal(t.phases.count, 0);
    tide_arena_release(&t.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_ends_the_one_of_its_name_that_began_last),
        cmocka_unit_test(an_end_ends_no_phase_of_another_process),
        cmocka_unit_test(an_end_without_a_begin_says_nothing),
        cmocka_unit_test(a_phase_that_runs_lasts_to_the_end_of_the_recording),
        cmocka_unit_test(a_phase_left_open_ends_with_its_process_and_runs_as_that_dies),
        cmocka_unit_test(a_phase_whose_end_is_lost_ends_where_the_next_of_its_name_begins),
        cmocka_unit_test(the_innermost_phase_of_a_moment_is_the_one_that_began_last),
        cmocka_unit_test(phases_of_one_name_that_overlap_are_one_stretch),
        cmocka_unit_test(marks_without_a_known_name_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
