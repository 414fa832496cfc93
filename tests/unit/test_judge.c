/*
 * test_judge.c - the judge on series whose truth is known: small ones by hand, and the labelled corpus with
 * its targets.
 */
#include "base/arena.h"
#include "corpus.h"
#include "judge/fit.h"
#include "judge/floor.h"
#include "judge/judge.h"
#include "judged_series.h"
#include "sanitized.h"

#include <math.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

static void a_steady_run_is_flat(void **state)
{
    (void)state;
    fill(1000, 4e9, 0, 5e6);
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_FLAT);
    assert_true(v.detectable > 0 && v.detectable < 2e4);
}

static void a_straight_rise_is_a_leak_with_its_rate(void **state)
{
    (void)state;
    fill(1000, 4e9, 2e5, 5e6);
    struct tide_judge_input input = input_of(1000);
    input.limit_bytes = 8e9;
    struct tide_verdict v = judge(input);
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_int_equal(v.shape, TIDE_SHAPE_LINEAR);
    assert_true(v.slope_low <= 2e5 && 2e5 <= v.slope_high);
    assert_true(fabs(v.slope / 2e5 - 1) < 0.02);
    assert_true(fabs(v.limit_x - 20000) < 400); /* (8e9 - 4e9) / 2e5 */
    assert_true(v.confidence > 0.99);
}

static void spikes_do_not_move_the_floor(void **state)
{
    enum { NAME = 200 }; /* of a program with many phases */
    (void)state;
    fill(1200, 4e9, 0, 1e6);
    for (size_t i = 0; i < 1200; i++)
        if (i % 100 >= 90)
            ys[i] += 4e9;
    struct tide_span spans[12];
    for (int i = 0; i < 12; i++)
        spans[i] = (struct tide_span){100 * i + 90, 100 * i + 99, NAME};
    struct tide_judge_input input = input_of(1200);
    input.phases = spans;
    input.phase_count = 12;
    struct tide_verdict v = judge(input);
    assert_int_equal(v.kind, TIDE_SPIKES);
    assert_int_equal(v.spikes.count, 12);
    assert_int_equal(v.spikes.in_phase, 12);
    assert_int_equal(v.spikes.phase, NAME);
    assert_true(fabs(v.spikes.typical_bytes / 4e9 - 1) < 0.01);
}

/* The floor of a window lies where that was lowest: what comes before that in it counts, when warm-up was
 * over by then. */
static void the_first_spike_after_warm_up_counts(void **state)
{
    (void)state;
    fill(400, 1e8, 0, 0);
    for (size_t i = 0; i < 38; i++)
        ys[i] -= 2e6;
    for (size_t i = 42; i < 400; i += 100)
        ys[i] += 5e7;
    ys[44] -= 1000;
    struct tide_verdict v = judge(input_of(400));
    assert_int_equal(v.kind, TIDE_SPIKES);
    assert_int_equal((int)v.start_x, 44);
    assert_int_equal(v.spikes.count, 4);
    assert_int_equal(v.spikes.returned, 4);
}

/* A busy machine's looks: a program that had to wait makes up for lost steps at once, so that there are looks
 * at the steps of validation only, the first of all among them. */
static void spikes_that_come_back_within_their_step_are_one_each(void **state)
{
    enum { EACH = 20 };
    (void)state;
    for (size_t i = 0; i < 8 * EACH; i++) {
        size_t k = i % EACH;
        xs[i] = (double)(i / EACH) * 50;
        ys[i] = 1e8 + (k > 4 && k < 11 ? 1e7 * (double)(k - 4) : 0);
    }
    struct tide_verdict v = judge(input_of(8 * EACH));
    assert_int_equal(v.spikes.count, 0); /* each step has one: that is how high it is */
    for (size_t i = 7 * EACH; i < 8 * EACH; i++) {
        xs[i] = 350 + (double)(i % EACH);
        ys[i] = 1e8;
    }
    v = judge(input_of(8 * EACH));
    assert_int_equal(v.spikes.count, 7);
    assert_int_equal(v.spikes.returned, 7);
    assert_int_equal((int64_t)v.spikes.typical_bytes, 60000000);
}

/* A run that begins high and comes down has not been seen to rise. */
static void what_a_run_begins_with_is_no_spike(void **state)
{
    (void)state;
    fill(400, 1e8, 0, 0);
    for (size_t i = 0; i < 3; i++)
        ys[i] += 5e7;
    assert_int_equal(judge(input_of(400)).kind, TIDE_FLAT);
    for (size_t i = 0; i < 39; i++)
        ys[i] = 1.5e8;
    assert_int_equal(judge(input_of(400)).spikes.count, 0);
}

static void a_leak_under_spikes_is_still_a_leak(void **state)
{
    (void)state;
    fill(1200, 4e9, 1e5, 1e6);
    for (size_t i = 0; i < 1200; i++)
        if (i % 100 >= 90)
            ys[i] += 4e9;
    struct tide_verdict v = judge(input_of(1200));
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_true(fabs(v.slope / 1e5 - 1) < 0.03);
    assert_int_equal(v.spikes.count, 12);
}

static void growth_that_stops_is_a_plateau_with_its_knee(void **state)
{
    (void)state;
    fill(1000, 4e9, 0, 5e6);
    for (size_t i = 0; i < 1000; i++)
        ys[i] += 1e7 * fmin((double)i, 400);
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_PLATEAU);
    assert_true(fabs(v.knee_x - 400) < 10);
    assert_true(fabs(v.ceiling_bytes / 8e9 - 1) < 0.01);
    assert_false(v.one_pass);
}

/* The top of the first tooth may be left out as a bump; what is left fits a line with a jump down. */
static void a_sawtooth_of_two_teeth_is_no_leak(void **state)
{
    (void)state;
    for (size_t count = 100; count <= 600; count += 100)
        for (size_t period = count * 50 / 100; period < count * 65 / 100; period++) {
            fill(count, 4e8, 0, 1e5);
            for (size_t i = 0; i < count; i++)
                ys[i] += 4e8 * (double)(i % period) / (double)period;
            assert_int_not_equal(judge(input_of(count)).kind, TIDE_LEAK);
        }
}

static void where_a_ramp_begins_is_no_broken_sample(void **state)
{
    (void)state;
    for (size_t period = 100; period < 300; period++) {
        fill(400, 4e8, 0, 1e5);
        for (size_t i = 0; i < 400; i++)
            ys[i] += 1e6 * (double)(i % period);
        struct tide_judge_input input = input_of(400);
        struct tide_arena_mark mark = tide_arena_mark(&arena);
        struct tide_moments moments;
        struct tide_floor floor;
        assert_int_equal(tide_moments_make(&input, &arena, &moments, NULL), 0);
        assert_int_equal(tide_floor_make(&moments, &arena, &floor, NULL), 0);
        for (size_t i = 1; i + 2 < floor.count; i++)
            assert_true(floor.kept[i] || floor.bytes[i] > floor.bytes[i - 1]);
        tide_arena_rewind(&arena, mark);
    }
}

static void stairs_that_became_lower_leak_at_their_later_rate(void **state)
{
    (void)state;
    for (double times = 1; times <= 8; times *= 2) {
        fill(600, 2e8, 0, 1e4);
        for (size_t i = 0; i < 600; i++)
            ys[i] += 3e6 * (floor((double)i / 30) + (times - 1) * fmin(floor((double)i / 30), 6));
        struct tide_verdict v = judge(input_of(600));
        assert_int_equal(v.kind, TIDE_LEAK);
        assert_true(v.slope_low <= 1e5 && 1e5 <= v.slope_high);
        assert_true(fabs(v.slope / 1e5 - 1) < 0.1);
        assert_true(times == 1 ? v.slope_x < 60 : v.slope_x >= 150 && v.slope_x <= 240);
    }
}

static void a_slow_leak_after_a_steep_rise_has_not_stopped(void **state)
{
    (void)state;
    for (size_t count = 60; count <= 300; count += 2) {
        fill(count, 4e8, 2e5, 5e4);
        for (size_t i = 0; i < count; i++)
            ys[i] += 8e6 * fmin((double)i, (double)count / 2);
        enum tide_verdict_kind kind = judge(input_of(count)).kind;
        assert_true(kind == TIDE_LEAK || kind == TIDE_UNDECIDED);
    }
}

static void what_rose_and_was_given_back_did_not_stop_at_a_level(void **state)
{
    (void)state;
    for (size_t peak = 300; peak <= 700; peak++) {
        fill(1000, 4e9, 0, 5e6);
        for (size_t i = 0; i < 1000; i++)
            ys[i] += 2e9 * fmin((double)i / (double)peak, (double)(1000 - i) / (double)(1000 - peak));
        enum tide_verdict_kind kind = judge(input_of(1000)).kind;
        assert_true(kind == TIDE_FLAT || kind == TIDE_SPIKES || kind == TIDE_UNDECIDED);
    }
    fill(1000, 4e9, 0, 5e6); /* early, held for long, and given back slowly */
    for (size_t i = 0; i < 1000; i++)
        ys[i] += 2e9 * fmin(1, fmin((double)i / 120, (double)(1000 - i) / 300));
    enum tide_verdict_kind kind = judge(input_of(1000)).kind;
    assert_true(kind == TIDE_FLAT || kind == TIDE_UNDECIDED);
}

/* Each validation leaves the heap at one of three sizes; before the first it is smaller. */
static void a_floor_that_wanders_after_its_warm_up_is_level(void **state)
{
    (void)state;
    static const double mb[] = {158,   164.1, 167.3, 162.7, 167.4, 169.1, 162.8, 169.1, 167.5, 167.5,
                                167.5, 169.2, 167.6, 167.6, 167.6, 162.9, 167.6, 169.3, 167.6};
    for (size_t i = 0; i < 190; i++) {
        xs[i] = 2.5 * (double)i;
        ys[i] = 1e6 * mb[i / 10];
    }
    assert_int_equal(judge(input_of(190)).kind, TIDE_FLAT);
}

/* Validations leave a heap of 157 MB up to 1.8 MB larger, and later smaller than it was at first. */
static void a_floor_that_wandered_up_and_came_back_is_level(void **state)
{
    (void)state;
    fill(320, 157e6, 0, 2e5);
    for (size_t i = 0; i < 320; i++)
        ys[i] += 1.8e6 * fmin((double)i / 90, 1) - 2.8e6 * fmax((double)i - 90, 0) / 230;
    assert_int_equal(judge(input_of(320)).kind, TIDE_FLAT);
}

/* A heap that most looks see full, and some while it is empty, the first of them among these. */
static void a_floor_that_was_first_seen_at_a_low_has_not_grown(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        double mib;
    } low[] = {{8, 16.5}, {17, 17.5}, {25, 15.3}, {35, 18.1}, {52, 17.5}, {59, 15.3}};
    fill(107, 18.3 * 0x1p20, 0, 0);
    for (size_t i = 0; i < 107; i++) /* the machine was less busy at first */
        xs[i] = i < 60 ? (double)i * 68 / 59 : 68 + (double)(i - 59) * 79 / 47;
    for (size_t i = 0; i < sizeof low / sizeof *low; i++)
        ys[low[i].at] = low[i].mib * 0x1p20;
    struct tide_verdict v = judge(input_of(107));
    assert_true(v.kind == TIDE_FLAT || v.kind == TIDE_SPIKES);
}

/* A leak under which a cache is given back, once: not called so, nor said to have been too small to show. */
static void what_would_have_shown_is_no_less_than_what_did_not(void **state)
{
    (void)state;
    for (double drop = 4; drop <= 16; drop += 2) {
        fill(400, 0x1p30, 50 * 1024, 0.2 * 0x1p20);
        for (size_t i = 200; i < 400; i++)
            ys[i] -= drop * 0x1p20;
        struct tide_verdict v = judge(input_of(400));
        assert_true(v.kind == TIDE_LEAK || v.kind == TIDE_UNDECIDED || v.detectable > 50 * 1024);
    }
}

/* A level that goes up and down with a memory of so many steps; of all steps: a walk at random. */
static void wander(size_t count, double far, double memory)
{
    double keep = memory > 0 ? exp(-1 / memory) : 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        at = memory < (double)count ? keep * at + sqrt(1 - keep * keep) * far * noise()
                                    : at + 2 * far / sqrt((double)count) * noise();
        xs[i] = (double)i;
        ys[i] = 1e9 + at + far / 5 * noise();
    }
}

/* "A leak above so much would have shown": such a leak on the same floor is called one in nine of ten,
 * however long the floor remembers where it was, and always on a floor that does not move. */
static void a_leak_of_the_size_that_would_have_shown_does(void **state)
{
    (void)state;
    enum { COUNT = 200, SERIES = 40 };
    static const double memories[] = {0, 4, 10, 20, 60, COUNT};
    dice = 1;
    size_t all_level = 0, all_found = 0;
    for (size_t m = 0; m < sizeof memories / sizeof *memories; m++) {
        size_t level = 0, found = 0;
        for (int s = 0; s < SERIES; s++) {
            wander(COUNT, s % 2 ? 4e6 : 4e5, memories[m]);
            struct tide_verdict v = judge(input_of(COUNT));
            if (v.kind != TIDE_FLAT && v.kind != TIDE_SPIKES)
                continue;
            level++;
            for (size_t i = 0; i < COUNT; i++)
                ys[i] += v.detectable * (double)i;
            found += judge(input_of(COUNT)).kind == TIDE_LEAK;
        }
        assert_true(level > SERIES / 2 && (double)found >= 0.85 * (double)level); /* of so few */
        all_level += level;
        all_found += found;
    }
    assert_true((double)all_found >= 0.9 * (double)all_level);
    for (double size = 1e7; size < 1e11; size *= 10) {
        fill(COUNT, size, 0, 0);
        struct tide_verdict v = judge(input_of(COUNT));
        assert_int_equal(v.kind, TIDE_FLAT);
        fill(COUNT, size, v.detectable, 0);
        assert_int_equal(judge(input_of(COUNT)).kind, TIDE_LEAK);
    }
}

static void growth_that_gains_speed_is_called_accelerating(void **state)
{
    (void)state;
    fill(1000, 4e9, 0, 1e6);
    for (size_t i = 0; i < 1000; i++)
        ys[i] += 1e3 * (double)(i * i);
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_int_equal(v.shape, TIDE_SHAPE_ACCELERATING);
}

static void a_short_run_is_undecided_and_says_how_long_would_do(void **state)
{
    (void)state;
    fill(20, 4e9, 1e5, 2e7);
    struct tide_verdict v = judge(input_of(20));
    assert_int_equal(v.kind, TIDE_UNDECIDED);
    assert_true(v.steps_needed > 10);
    assert_true(v.needed_for > 0);
}

static void two_looks_have_a_floor_each(void **state)
{
    (void)state;
    fill(2, 100e6, 1e6, 0);
    struct tide_verdict v = judge(input_of(2));
    assert_int_equal(v.kind, TIDE_UNDECIDED);
    assert_true(v.floor_first == ys[0] && v.floor_last == ys[1] && v.growth_bytes == ys[1] - ys[0]);
}

static void a_few_looks_are_undecided_however_level(void **state)
{
    (void)state;
    fill(11, 6e6, 0, 0);
    assert_int_equal(judge(input_of(11)).kind, TIDE_UNDECIDED);
    fill(12, 6e6, 0, 0);
    assert_int_equal(judge(input_of(12)).kind, TIDE_FLAT);
}

static void warm_up_is_left_out(void **state)
{
    (void)state;
    fill(1000, 4e9, 0, 1e6);
    for (size_t i = 0; i < 12; i++)
        ys[i] -= 3e9 * exp(-(double)i / 4);
    assert_int_equal(judge(input_of(1000)).kind, TIDE_FLAT);
}

/* A program imports and trains, ever slower on a busy machine, and takes long to end. What it came to is
 * known, and no curve through it says more. */
static void a_plateau_is_no_higher_than_what_was_seen(void **state)
{
    static const double seconds[] = {0,   36,  72,  108, 144, 180, 219, 255, 293, 329, 365,
                                     401, 437, 473, 509, 547, 583, 619, 655, 691, 985};
    static const double mib[] = {10,  250, 296, 331, 357, 376, 379, 414, 451, 482, 490,
                                 499, 510, 511, 519, 527, 534, 546, 558, 562, 562};
    (void)state;
    size_t count = 0, k = 0;
    for (double x = 0; x < 985; x += 5) {
        while (seconds[k + 1] <= x)
            k++;
        xs[count] = x;
        ys[count++] =
            0x1p20 * (mib[k] + (mib[k + 1] - mib[k]) * (x - seconds[k]) / (seconds[k + 1] - seconds[k]));
    }
    struct tide_judge_input input = input_of(count);
    input.x_is_steps = false;
    struct tide_verdict v = judge(input);
    assert_int_equal(v.kind, TIDE_PLATEAU);
    assert_true(v.ceiling_bytes <= v.peak);
    assert_true(v.knee_x > 500 && v.knee_x < 720);
}

/* A leak begins at step 500, and the allocator takes a megabyte at a time for it. */
/* Stairs of `period` steps from step 500 on, of 80,000 bytes a step. */
static struct tide_verdict judge_late_stairs(double period)
{
    dice = 1;
    fill(1000, 40e6, 0, 2000);
    for (size_t i = 500; i < 1000; i++)
        ys[i] += floor((double)(i - 500) / period) * period * 80000;
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_true(fabs(v.since_x - 500) < 10 + period);
    assert_true(fabs(v.slope / 80000 - 1) < 0.1);
    assert_true(fabs(v.slope * (v.x_last - v.slope_x) / v.growth_bytes - 1) < 0.1);
    return v;
}

static void a_staircase_that_begins_late_says_since_when(void **state)
{
    (void)state;
    static const double periods[] = {26, 28, 30, 34, 36, 40};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++)
        assert_int_equal(judge_late_stairs(periods[i]).shape, TIDE_SHAPE_STAIRCASE);
    /* A window is ten steps: each has a stair, and no tread between two of them is seen. */
    assert_int_equal(judge_late_stairs(12).shape, TIDE_SHAPE_LINEAR);
}

/* A part of the program that begins in the middle takes memory at once, and leaks from then on. Late jumps
 * leave too few windows to judge by themselves. */
static void a_leak_that_begins_with_a_jump_is_found(void **state)
{
    (void)state;
    size_t leaks = 0, wrong = 0, total = 0;
    for (int turn = 0; turn < 6; turn++)
        for (double jump = 5e8; jump <= 3e9; jump *= 2)
            for (size_t at = 80; at <= 200; at += 20)
                for (double rate = 0; rate <= 2e6; rate += 1e6) {
                    for (size_t i = 0; i < 350; i++) {
                        xs[i] = (double)i;
                        ys[i] = 3e8 + (i < at ? 0 : jump + rate * (double)(i - at)) + 1e5 * noise();
                    }
                    struct tide_verdict v = judge(input_of(350));
                    bool leak = v.kind == TIDE_LEAK, plateau = v.kind == TIDE_PLATEAU;
                    assert_true(rate > 0 ? leak || plateau || v.kind == TIDE_UNDECIDED : v.kind == TIDE_JUMP);
                    total += rate > 0;
                    leaks += rate > 0 && leak;
                    wrong += plateau;
                }
    assert_true(4 * leaks >= 3 * total);
    assert_true(100 * wrong <= total);
}

static void order_and_repetition_do_not_matter(void **state)
{
    (void)state;
    fill(1000, 4e9, 2e5, 5e6);
    struct tide_verdict forward = judge(input_of(1000));
    for (size_t i = 0; i < 500; i++) {
        double x = xs[i], y = ys[i];
        xs[i] = xs[999 - i], ys[i] = ys[999 - i];
        xs[999 - i] = x, ys[999 - i] = y;
    }
    struct tide_verdict backward = judge(input_of(1000));
    assert_int_equal(forward.kind, backward.kind);
    assert_true(fabs(forward.slope - backward.slope) < 1e-6 * forward.slope);
}

/* A worker of a data loader, a small server: surely rising, a page at a time, and nobody's leak. */
static void a_rise_that_does_not_matter_is_flat(void **state)
{
    (void)state;
    for (size_t i = 0; i < 100; i++) {
        xs[i] = (double)i / 4;
        ys[i] = 1.2e8 + 4096 * floor(0.52 * (double)i);
    }
    struct tide_verdict v = judge(input_of(100));
    assert_int_equal(v.kind, TIDE_FLAT);
    assert_true(v.detectable * 24.75 >= 512 * 1024); /* what is said to have shown would have */
    for (size_t i = 0; i < 100; i++)
        ys[i] = 2e6 + 4096 * floor(0.72 * (double)i);
    assert_int_equal(judge(input_of(100)).kind, TIDE_FLAT);
    for (size_t i = 0; i < 100; i++)
        ys[i] = 1.2e8 + 4096 * floor(1.7 * (double)i);
    assert_int_equal(judge(input_of(100)).kind, TIDE_LEAK);
    for (size_t i = 0; i < 30; i++) /* a short run may be the beginning of one */
        ys[i] = 1.2e8 + 4096 * floor(3.0 * (double)i);
    assert_int_equal(judge(input_of(30)).kind, TIDE_UNDECIDED);
    for (size_t i = 0; i < 12; i++)
        ys[i] = 8e6 + 4096 * (double)i;
    assert_int_equal(judge(input_of(12)).kind, TIDE_UNDECIDED);
}

static void strange_numbers_are_survived(void **state)
{
    (void)state;
    fill(100, 4e9, 0, 1e6);
    ys[3] = NAN, xs[7] = INFINITY, ys[50] = -INFINITY, ys[60] = 0;
    judge(input_of(100));
    for (size_t count = 1; count < 5; count++) {
        struct tide_verdict few = judge(input_of(count));
        assert_int_equal(few.kind, TIDE_UNDECIDED);
        assert_true(few.steps_needed > 0);
    }
    for (size_t count = 5; count < 12; count++)
        judge(input_of(count));
    for (size_t i = 0; i < 100; i++)
        xs[i] = 5; /* all at one moment */
    assert_int_equal(judge(input_of(100)).kind, TIDE_UNDECIDED);
    fill(100, 0, 0, 0); /* a process with no memory at all */
    judge(input_of(100));
    fill(100, 1e300, 1e298, 0);
    judge(input_of(100));
    struct tide_judge_input none = input_of(0);
    struct tide_verdict v;
    struct tide_err err;
    assert_int_equal(tide_judge(&none, &arena, &v, &err), -1);
    assert_string_equal(err.text, "there is no sample to judge");
}

static void too_little_memory_is_an_error(void **state)
{
    (void)state;
    fill(1000, 4e9, 0, 1e6);
    struct tide_arena small;
    tide_arena_init(&small, 16 * 1024);
    struct tide_judge_input input = input_of(1000);
    struct tide_verdict v;
    struct tide_err err;
    assert_int_equal(tide_judge(&input, &small, &v, &err), -1);
    tide_arena_release(&small);
}

static struct tide_verdict judge_published(const double *mb, size_t count, double items)
{
    for (size_t i = 0; i < count; i++) {
        xs[i] = 10 * (double)(i + 1);
        ys[i] = mb[i] * 1e6;
    }
    struct tide_judge_input input = input_of(count);
    input.items = items;
    input.items_per_step = 8;
    return judge(input);
}

static void the_663_images_are_one_pass(void **state)
{
    (void)state;
    static const double mb[] = {5434, 7017, 8721, 10375, 12000, 13757, 15559, 17412, 17658, 17693};
    struct tide_verdict v = judge_published(mb, 10, 663);
    assert_int_equal(v.kind, TIDE_PLATEAU);
    assert_true(v.one_pass);
    assert_true(fabs(v.knee_x - 83) < 5);
    assert_true(v.bytes_per_item > 17e6 && v.bytes_per_item < 23e6);
    v = judge_published(mb, 10, NAN);
    assert_int_equal(v.kind, TIDE_PLATEAU);
    assert_true(fabs(v.knee_x - 83) < 5);
    assert_false(v.one_pass);
    v = judge_published(mb, 10, 400); /* not where these data stop */
    assert_int_equal(v.kind, TIDE_PLATEAU);
    assert_false(v.one_pass);
}

static void the_100_images_are_one_pass(void **state)
{
    (void)state;
    static const double mb[] = {4952, 5238, 5230, 5245, 5257};
    struct tide_verdict v = judge_published(mb, 5, 100);
    assert_int_equal(v.kind, TIDE_PLATEAU);
    assert_true(v.one_pass);
    assert_true(fabs(v.knee_x - 12.5) < 1e-9);
}

/* A tenth of what `make bench-judge` runs, with another seed, against the same targets where that many runs
 * can hold them; with a sanitizer every fifth of these, which are too few for a target. */
static void the_labelled_corpus_is_judged_well(void **state)
{
    (void)state;
    size_t leaks = 0, found = 0, sound = 0, alarmed = 0, runs = 0, right = 0, brief = 0, wrong = 0;
    for (uint64_t n = 0; n < 720; n += SANITIZED ? 5 : 1) {
        struct tide_corpus_run r;
        assert_int_equal(tide_corpus_make(4711, n, &arena, &r), 0);
        struct tide_judge_input input = {.x = r.x,
                                         .bytes = r.bytes,
                                         .count = r.count,
                                         .x_is_steps = true,
                                         .items = NAN,
                                         .items_per_step = NAN,
                                         .limit_bytes = NAN};
        struct tide_verdict v;
        struct tide_err err;
        assert_int_equal(tide_judge(&input, &arena, &v, &err), 0);
        sound += r.truth != TIDE_LEAK;
        alarmed += r.truth != TIDE_LEAK && v.kind == TIDE_LEAK;
        if (r.length == CORPUS_SHORT) {
            brief++;
            wrong += v.kind != r.truth && v.kind != TIDE_UNDECIDED;
        } else {
            runs++;
            right += v.kind == r.truth || v.kind == r.also_right;
        }
        if (r.length == CORPUS_LONG && r.truth == TIDE_LEAK) {
            leaks++;
            found += v.kind == TIDE_LEAK;
        }
        tide_arena_release(&arena);
    }
    if (SANITIZED)
        return;
    assert_true((double)found >= 0.95 * (double)leaks);
    assert_true((double)alarmed <= 0.02 * (double)sound);
    assert_true((double)right >= 0.90 * (double)runs);
    assert_true((double)wrong <= 0.10 * (double)brief);
}

static void a_rise_of_a_few_pages_that_has_stopped_is_flat(void **state)
{
    (void)state;
    for (size_t i = 0; i < 56; i++) {
        xs[i] = (double)i;
        ys[i] = 1.75e8 - 4096 * floor(40 * exp(-(double)i / 6)); /* 160 KiB, in whole pages */
    }
    assert_int_equal(judge(input_of(56)).kind, TIDE_FLAT);
    for (size_t i = 0; i < 56; i++)
        ys[i] = 1.75e8 - 4096 * floor(400 * exp(-(double)i / 6));
    assert_int_equal(judge(input_of(56)).kind, TIDE_PLATEAU);
}

static void a_short_run_whose_first_half_stood_still_is_no_linear_leak(void **state)
{
    (void)state;
    /* Lowest of each step, of a program that jumped in step 13 and whose allocator gave some of it back. */
    static const double seen[] = {126, 143, 143, 143, 147, 147, 146, 146, 146, 143, 143, 151, 143, 348,
                                  338, 254, 254, 254, 254, 254, 322, 322, 322, 325, 328, 328, 337, 324};
    for (size_t i = 0; i < 28; i++) {
        xs[i] = (double)i;
        ys[i] = seen[i] * 1e6;
    }
    assert_int_equal(judge(input_of(28)).kind, TIDE_UNDECIDED);
    for (size_t i = 0; i < 28; i++)
        ys[i] = (143 + 7 * (double)i + 4 * (double)(i % 3 == 1)) * 1e6;
    assert_int_equal(judge(input_of(28)).kind, TIDE_LEAK);
}

/* Whatever the last window is taken for, more than was seen is not said. */
static void a_leak_grew_by_no_more_than_was_seen(void **state)
{
    (void)state;
    enum { LOOKS = 40 };
    for (size_t i = 0; i < LOOKS; i++) {
        xs[i] = (double)(i + 1 < LOOKS ? 10 * i : 10 * i + 60);
        ys[i] = 1e8 + 1e6 * (double)(10 * (i + 1 < LOOKS ? i : LOOKS - 2));
    }
    struct tide_verdict v = judge(input_of(LOOKS));
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_true(v.growth_bytes > 0 && v.floor_last <= ys[LOOKS - 2]);
}

static void the_median_is_the_middle(void **state)
{
    (void)state;
    double odd[] = {5, 1, 9}, even[] = {4, 1, 3, 2}, one[] = {7};
    assert_true(tide_median(odd, 3) == 5);
    assert_true(tide_median(even, 4) == 2.5);
    assert_true(tide_median(one, 1) == 7);
    assert_true(isnan(tide_median(one, 0)));
}

static void quantiles_are_those_of_the_tables(void **state)
{
    (void)state;
    static const double table[][2] = {{1, 12.7062}, {2, 4.3027},  {3, 3.1824},  {3.5, 2.9401}, {4, 2.7764},
                                      {5, 2.5706},  {10, 2.2281}, {30, 2.0423}, {1000, 1.9623}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_true(fabs(tide_t_quantile95(table[i][0]) / table[i][1] - 1) < 0.001);
}

/* A program without steps imports for 6 s, then keeps 0.9 MB of losses a second, and takes 2 s to end. That
 * is slow beside the import, and did not stop. */
static void what_rises_slowly_after_a_fast_start_has_not_stopped(void **state)
{
    (void)state;
    dice = 1;
    fill(149, 2.4e8, 0, 1e5);
    for (size_t i = 0; i < 149; i++)
        ys[i] += 3.2e6 * fmin((double)i, 25) + 2.2e5 * fmin(fmax((double)i - 25, 0), 112);
    assert_int_equal(judge(input_of(149)).kind, TIDE_UNDECIDED);
}

int main(void)
{
    tide_arena_init(&arena, (size_t)64 << 20);
    const struct CMUnitTest tests[] = {
        TEST(a_steady_run_is_flat),
        TEST(a_straight_rise_is_a_leak_with_its_rate),
        TEST(spikes_do_not_move_the_floor),
        TEST(the_first_spike_after_warm_up_counts),
        TEST(spikes_that_come_back_within_their_step_are_one_each),
        TEST(what_a_run_begins_with_is_no_spike),
        TEST(a_leak_under_spikes_is_still_a_leak),
        TEST(growth_that_stops_is_a_plateau_with_its_knee),
        TEST(a_sawtooth_of_two_teeth_is_no_leak),
        TEST(where_a_ramp_begins_is_no_broken_sample),
        TEST(stairs_that_became_lower_leak_at_their_later_rate),
        TEST(a_slow_leak_after_a_steep_rise_has_not_stopped),
        TEST(what_rose_and_was_given_back_did_not_stop_at_a_level),
        TEST(what_would_have_shown_is_no_less_than_what_did_not),
        TEST(a_leak_of_the_size_that_would_have_shown_does),
        TEST(a_floor_that_was_first_seen_at_a_low_has_not_grown),
        TEST(a_floor_that_wanders_after_its_warm_up_is_level),
        TEST(growth_that_gains_speed_is_called_accelerating),
        TEST(a_short_run_is_undecided_and_says_how_long_would_do),
        TEST(a_few_looks_are_undecided_however_level),
        TEST(warm_up_is_left_out),
        TEST(order_and_repetition_do_not_matter),
        TEST(a_rise_that_does_not_matter_is_flat),
        TEST(strange_numbers_are_survived),
        TEST(too_little_memory_is_an_error),
        TEST(the_663_images_are_one_pass),
        TEST(the_100_images_are_one_pass),
        TEST(the_labelled_corpus_is_judged_well),
        TEST(a_rise_of_a_few_pages_that_has_stopped_is_flat),
        TEST(a_short_run_whose_first_half_stood_still_is_no_linear_leak),
        TEST(a_leak_grew_by_no_more_than_was_seen),
        TEST(the_median_is_the_middle),
        TEST(quantiles_are_those_of_the_tables),
        TEST(a_leak_that_begins_with_a_jump_is_found),
        TEST(a_plateau_is_no_higher_than_what_was_seen),
        TEST(a_staircase_that_begins_late_says_since_when),
        TEST(what_rises_slowly_after_a_fast_start_has_not_stopped),
        TEST(a_floor_that_wandered_up_and_came_back_is_level),
        TEST(two_looks_have_a_floor_each),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tide_arena_release(&arena);
    return failed;
}
