/*
 * judged_series.h - a series made by hand, and what the judge says of it.
 */
#ifndef JUDGED_SERIES_H
#define JUDGED_SERIES_H

#include "base/arena.h"
#include "judge/judge.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

enum { MOST = 4000 };

static struct tide_arena arena;
static double xs[MOST], ys[MOST];
static uint64_t dice = 1;

/* Before each test, so that its noise does not depend on the tests before it. */
static int begin_noise(void **state)
{
    (void)state;
    tide_arena_release(&arena);
    dice = 1;
    return 0;
}

#define TEST(f) cmocka_unit_test_setup(f, begin_noise)

/* Between -1 and 1, the same on every machine. */
static double noise(void)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)dice * 0x1p-63;
}

static struct tide_judge_input input_of(size_t count)
{
    return (struct tide_judge_input){.x = xs,
                                     .bytes = ys,
                                     .count = count,
                                     .x_is_steps = true,
                                     .items = NAN,
                                     .items_per_step = NAN,
                                     .limit_bytes = NAN};
}

static struct tide_verdict judge(struct tide_judge_input input)
{
    struct tide_verdict v;
    struct tide_err err;
    assert_int_equal(tide_judge(&input, &arena, &v, &err), 0);
    assert_null(arena.newest); /* scratch is given back */
    return v;
}

static void fill(size_t count, double level, double rate, double shake)
{
    for (size_t i = 0; i < count; i++) {
        xs[i] = (double)i;
        ys[i] = level + rate * (double)i + shake * noise();
    }
}

#endif
