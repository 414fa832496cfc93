/*
 * test_train_tuning.c - the number of threads that a made-up machine is fastest with is found, and found
 * again when the machine changes.
 */
#include "train/tuning.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

/* Steps of a machine on which work is shared out and each further thread has its price; how many of them were
 * done by another number than the best. */
struct made_machine {
    int64_t work_ns, price_ns;
};

static int64_t step_ns(const struct made_machine *m, int threads, int step)
{
    int64_t wobble = step % 7 * (m->work_ns / 200), interrupted = step % 11 == 0 ? m->work_ns : 0;
    return m->work_ns / threads + m->price_ns * (threads - 1) + wobble + interrupted;
}

static int run(struct tide_tuning *tuning, int threads, const struct made_machine *m, int steps, int best,
               int *ret_others)
{
    *ret_others = 0;
    for (int step = 0; step < steps; step++) {
        *ret_others += threads != best;
        threads = tide_tuning_step(tuning, step_ns(m, threads, step));
        assert_true(threads >= 1 && threads <= tuning->most);
    }
    return threads;
}

static void the_fastest_number_is_found(void **state)
{
    (void)state;
    static const struct {
        struct made_machine machine;
        int most, best;
    } tries[] = {
        {{2000000, 2000000}, 2, 1}, {{2000000, 100000}, 2, 2},   {{2000000, 30000}, 16, 8},
        {{2000000, 2000}, 16, 16},  {{2000000, 1200000}, 16, 1}, {{2000000, 20000}, 12, 12},
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct tide_tuning tuning;
        int others;
        tide_tuning_init(&tuning, tries[i].most);
        int last = run(&tuning, tries[i].most, &tries[i].machine, 2000, tries[i].best, &others);
        run(&tuning, last, &tries[i].machine, 20000, tries[i].best, &others);
        assert_int_equal(tuning.now, tries[i].best);
        assert_true(others * 50 < 20000); /* trials are rare */
    }
}

static void a_machine_that_changes_is_followed(void **state)
{
    (void)state;
    const struct made_machine near = {2000000, 300000}, far = {2000000, 2000000};
    struct tide_tuning tuning;
    int others;
    tide_tuning_init(&tuning, 2);
    int last = run(&tuning, 2, &near, 6000, 2, &others);
    assert_int_equal(tuning.now, 2);
    last = run(&tuning, last, &far, 6000, 1, &others);
    assert_int_equal(tuning.now, 1);
    run(&tuning, last, &near, 6000, 2, &others);
    assert_int_equal(tuning.now, 2);
}

static void long_steps_are_left_alone(void **state)
{
    (void)state;
    const struct made_machine slow = {400000000, 1000000000};
    struct tide_tuning tuning;
    int others;
    tide_tuning_init(&tuning, 4);
    run(&tuning, 4, &slow, 3000, 4, &others);
    assert_int_equal(others, 0);
    tide_tuning_init(&tuning, 1);
    assert_int_equal(tide_tuning_step(&tuning, 1000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_number_is_found),
        cmocka_unit_test(a_machine_that_changes_is_followed),
        cmocka_unit_test(long_steps_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
