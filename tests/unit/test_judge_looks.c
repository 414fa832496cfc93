/*
 * test_judge_looks.c - the judge where looks came late, or the last ones are of a program that was ending.
 */
#include "judge/judge.h"
#include "judged_series.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

/* On a busy machine there may be no look for that many steps after the last stair, so its place is less sure.
 */
static void looks_that_come_late_widen_the_interval_of_a_staircase(void **state)
{
    static const double epochs[] = {50, 100, 150, 200, 250, 300, 350};
    (void)state;
    for (double late = 5; late <= 30; late += 5) {
        size_t count = 0;
        for (double x = 0; x < 400; x += 2.5) {
            if (x > 349 && x < 350 + late)
                continue;
            xs[count] = x;
            ys[count++] = 1e7 + 2 * 0x1p20 * floor(x / 50) + 2e3 * noise();
        }
        struct tide_judge_input input = input_of(count);
        input.epochs = epochs;
        input.epoch_count = sizeof epochs / sizeof *epochs;
        struct tide_verdict v = judge(input);
        assert_int_equal(v.shape, TIDE_SHAPE_STAIRCASE);
        assert_int_equal(v.stairs_at, TIDE_STAIRS_AT_EPOCHS);
        assert_true(v.slope_low <= 2 * 0x1p20 / 50 && v.slope_high >= 2 * 0x1p20 / 50);
    }
}

static void a_program_that_is_seen_ending_still_leaked(void **state)
{
    (void)state;
    for (size_t count = 14; count <= 1400; count *= 10) {
        fill(count, 2e8, 2e5, 1e4);
        ys[count - 1] = 1e8;
        struct tide_verdict v = judge(input_of(count));
        assert_int_equal(v.kind, TIDE_LEAK);
        assert_true(fabs(v.slope / 2e5 - 1) < 0.02);
    }
}

/* On a busy machine a look may be late: it has what the program held a few steps later. */
static void a_look_that_came_late_does_not_change_the_rate(void **state)
{
    (void)state;
    enum { RATE = 150000 };
    static const size_t looks[] = {9, 12, 20, 30, 71};
    for (size_t k = 0; k < sizeof looks / sizeof *looks; k++)
        for (size_t late = 0; late < looks[k]; late++) {
            for (size_t i = 0; i < looks[k]; i++) {
                xs[i] = (double)(4 * i + i * i % 3);
                ys[i] = RATE * (xs[i] + 1 + (i == late ? 3 : 0));
            }
            struct tide_verdict v = judge(input_of(looks[k]));
            assert_int_equal(v.kind, TIDE_LEAK);
            if (fabs(v.slope / RATE - 1) > 0.01)
                fail_msg("look %zu of %zu: %.0f", late, looks[k], v.slope);
        }
}

/* One that is late more often than not gets a few looks in a row that are late: as steps, and how many later
 * the program was looked at. Noise of so long a memory must not hide a rise that is straight. */
static void looks_that_come_late_in_a_row_leave_a_leak_a_leak(void **state)
{
    (void)state;
    static const double runs[][46][2] = {
        {{1, 0},    {4, 0},   {8, 0},   {14, 8},   {28, 23},  {32, 0},  {35, 22},  {40, 0},
         {44, 0},   {48, 0},  {51, 20}, {74, 31},  {110, 0},  {115, 0}, {118, 0},  {123, 0},
         {128, 0},  {134, 0}, {139, 0}, {143, 38}, {148, 34}, {185, 0}, {190, 22}, {194, 20},
         {219, 28}, {255, 3}, {260, 0}, {265, 0},  {270, 0},  {276, 0}, {280, 0},  {285, 0},
         {290, 0},  {295, 8}, {299, 0}, {302, 0},  {308, 0},  {314, 0}, {319, 0},  {323, 7},
         {366, 0},  {371, 0}, {374, 6}, {377, 0},  {383, 0},  {388, 0}},
        {{1, 0},    {5, 0},   {9, 0},   {12, 0},  {16, 0},   {22, 28},  {54, 0},   {59, 0},
         {63, 0},   {66, 25}, {70, 26}, {75, 0},  {80, 0},   {85, 0},   {90, 0},   {93, 36},
         {98, 0},   {103, 0}, {106, 0}, {111, 7}, {122, 26}, {125, 34}, {163, 26}, {193, 37},
         {234, 39}, {277, 0}, {280, 0}, {285, 0}, {290, 0},  {294, 8},  {299, 14}, {305, 0},
         {308, 34}, {345, 0}, {351, 0}, {371, 0}, {376, 6},  {379, 0},  {384, 0},  {388, 34}},
        {{1, 0},    {4, 0},    {8, 0},    {12, 10}, {26, 0},   {32, 18}, {53, 0},  {59, 0},
         {64, 0},   {67, 38},  {110, 0},  {116, 0}, {122, 8},  {135, 0}, {140, 9}, {154, 10},
         {159, 22}, {162, 14}, {182, 23}, {209, 0}, {212, 0},  {220, 0}, {226, 0}, {229, 37},
         {271, 0},  {274, 0},  {278, 0},  {284, 0}, {290, 23}, {296, 0}, {301, 0}, {307, 23},
         {336, 0},  {341, 1},  {347, 7},  {359, 0}, {364, 0},  {368, 0}, {371, 39}}};
    static const size_t looks[] = {46, 40, 39};
    for (size_t k = 0; k < sizeof looks / sizeof *looks; k++) {
        for (size_t i = 0; i < looks[k]; i++) {
            xs[i] = runs[k][i][0];
            ys[i] = 8.3e6 + 65536 * (xs[i] + runs[k][i][1]);
        }
        struct tide_verdict v = judge(input_of(looks[k]));
        assert_int_equal(v.kind, TIDE_LEAK);
        assert_true(fabs(v.slope / 65536 - 1) < 0.05);
    }
}

/* A training loop that keeps 512 KiB a step, as steps and MiB. The last look saw it give back a part. */
static void a_leak_whose_last_window_is_low_has_not_stopped(void **state)
{
    (void)state;
    static const double looks[][2] = {
        {1, 439.5},  {2, 440.7},  {3, 440.8},  {4, 441.3},  {5, 442.7},  {6, 442.6},  {7, 442.8},
        {8, 445.2},  {9, 443.9},  {10, 444.4}, {11, 445.8}, {12, 446.1}, {13, 446.0}, {14, 446.6},
        {15, 447.9}, {16, 447.9}, {17, 449.6}, {18, 448.3}, {19, 448.4}, {20, 449.5}, {21, 451.5},
        {22, 453.2}, {23, 456.6}, {24, 452.5}, {25, 457.4}, {26, 452.8}, {27, 452.9}, {28, 454.4},
        {29, 454.3}, {30, 454.4}, {31, 454.9}, {32, 456.0}, {34, 459.2}, {35, 460.2}, {36, 457.9},
        {37, 461.0}, {38, 458.6}, {39, 459.1}, {40, 459.6}, {41, 463.0}, {42, 460.6}, {43, 463.7},
        {44, 461.6}, {45, 463.9}, {46, 467.2}, {48, 467.9}, {49, 464.6}, {51, 468.5}, {52, 469.1},
        {53, 466.6}, {55, 470.0}, {56, 468.5}, {57, 469.6}, {58, 470.0}, {59, 475.1}, {60, 469.6},
        {61, 470.1}, {62, 472.3}, {63, 475.9}, {64, 471.6}, {65, 472.8}, {66, 475.9}, {67, 473.1},
        {68, 477.5}, {69, 471.1}};
    enum { LOOKS = sizeof looks / sizeof *looks };
    for (size_t i = 0; i < LOOKS; i++) {
        xs[i] = looks[i][0];
        ys[i] = 1048576 * looks[i][1];
    }
    struct tide_verdict v = judge(input_of(LOOKS));
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_true(fabs(v.slope / (512 * 1024) - 1) < 0.05);
}

static void a_last_look_that_is_low_does_not_change_the_rate(void **state)
{
    (void)state;
    enum { LOOKS = 48, RATE = 272000 };
    for (size_t i = 0; i < LOOKS; i++) {
        xs[i] = (double)(4 * i);
        ys[i] = RATE * (xs[i] - (i + 1 == LOOKS ? 1.5 : 0)) + 1e8 + 1e4 * noise();
    }
    struct tide_verdict v = judge(input_of(LOOKS));
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_true(fabs(v.slope / RATE - 1) < 0.01);
}

/* What a busy tracker saw of a cache that is full at step 200, as steps and MiB: of the second half of the
 * run one look, which is level. */
static void a_rise_that_has_stopped_at_the_last_look_is_no_leak(void **state)
{
    (void)state;
    static const double looks[][2] = {{8, 9.7},    {11, 10.6},  {15, 11.9}, {18, 12.8}, {21, 13.7},
                                      {33, 15.6},  {34, 17.8},  {53, 23.7}, {56, 24.7}, {58, 25.3},
                                      {60, 25.9},  {63, 26.9},  {71, 29.3}, {86, 34.0}, {148, 53.4},
                                      {183, 64.3}, {197, 69.4}, {366, 69.4}};
    enum { LOOKS = sizeof looks / sizeof *looks };
    for (size_t i = 0; i < LOOKS; i++) {
        xs[i] = looks[i][0];
        ys[i] = looks[i][1] * (1 << 20);
    }
    struct tide_verdict v = judge(input_of(LOOKS));
    assert_int_not_equal(v.kind, TIDE_LEAK);
    assert_true(v.growth_bytes <= 69.4 * (1 << 20));
}

/* 350 KiB a step from `since` on, and a buffer that is freed before the program ends. */
static void a_late_leak_of_a_program_that_is_seen_ending_is_found(void **state)
{
    (void)state;
    for (size_t since = 480; since <= 560; since += 20) {
        for (size_t i = 0; i < 600; i++) {
            xs[i] = (double)i;
            ys[i] = 1e8 + 358400.0 * (i > since ? (double)(i - since) : 0) - (i == 599 ? 5e7 : 0);
        }
        struct tide_verdict v = judge(input_of(600));
        assert_true(v.kind == TIDE_LEAK || (v.kind == TIDE_UNDECIDED && since > 540));
        if (v.kind == TIDE_LEAK)
            assert_true(v.slope_low < 358400 && v.slope_high > 358400 && fabs(v.slope / 358400 - 1) < 0.05);
    }
}

/* Noise makes wide windows of which the last alone is high, and is taken for the beginning of a spike. */
static void what_rises_at_the_end_is_not_called_level(void **state)
{
    (void)state;
    size_t told = 0, total = 0;
    for (int turn = 0; turn < 6; turn++)
        for (size_t count = 200; count <= 4000; count *= 4)
            for (double since = 0.8; since <= 0.92; since += 0.03) {
                double rise = 60e6 / (1 - since);
                for (size_t i = 0; i < count; i++) {
                    double u = (double)i / (double)count;
                    xs[i] = (double)i;
                    ys[i] = 2e8 + 2e5 * noise() + (u > since ? rise * (u - since) : 0);
                }
                enum tide_verdict_kind kind = judge(input_of(count)).kind;
                told += kind == TIDE_LEAK || kind == TIDE_UNDECIDED;
                total++;
                for (size_t i = 0; i < count; i++) /* a last evaluation is a spike that has not come back */
                    ys[i] = 2e8 + 2e5 * noise() + ((double)i > since * (double)count ? 60e6 : 0);
                kind = judge(input_of(count)).kind;
                assert_true(kind == TIDE_SPIKES || kind == TIDE_JUMP || kind == TIDE_FLAT);
            }
    assert_true(100 * told >= 97 * total);
}

/* The last tooth of a sawtooth is not over when the run ends. */
static void a_last_tooth_is_not_a_rise_at_the_end(void **state)
{
    (void)state;
    for (size_t count = 1000; count <= 1080; count += 4) {
        fill(count, 3e8, 0, 1e5);
        for (size_t i = 0; i < count; i++)
            ys[i] += 5e7 * fmod((double)i, 91) / 91;
        enum tide_verdict_kind kind = judge(input_of(count)).kind;
        assert_true(kind == TIDE_SPIKES || kind == TIDE_FLAT);
    }
}

/* Looks that are as far apart as windows see a leak that begins late as a rise at every look: no stairs. */
static void a_rise_at_every_look_is_no_staircase(void **state)
{
    (void)state;
    for (size_t since = 20; since <= 40; since += 2) {
        for (size_t i = 0; i < 61; i++) {
            xs[i] = 4.0 * (double)i + (double)(i * i % 3);
            ys[i] = 6e7 + 204800.0 * fmax(xs[i] - 4.0 * (double)since, 0);
        }
        struct tide_verdict v = judge(input_of(61));
        assert_int_equal(v.kind, TIDE_LEAK);
        assert_int_equal(v.stairs, 0);
        assert_true(fabs(v.slope / 204800 - 1) < 0.02);
    }
}

int main(void)
{
    tide_arena_init(&arena, (size_t)64 << 20);
    const struct CMUnitTest tests[] = {
        TEST(looks_that_come_late_widen_the_interval_of_a_staircase),
        TEST(a_program_that_is_seen_ending_still_leaked),
        TEST(a_look_that_came_late_does_not_change_the_rate),
        TEST(looks_that_come_late_in_a_row_leave_a_leak_a_leak),
        TEST(a_leak_whose_last_window_is_low_has_not_stopped),
        TEST(a_last_look_that_is_low_does_not_change_the_rate),
        TEST(a_rise_that_has_stopped_at_the_last_look_is_no_leak),
        TEST(a_late_leak_of_a_program_that_is_seen_ending_is_found),
        TEST(what_rises_at_the_end_is_not_called_level),
        TEST(a_last_tooth_is_not_a_rise_at_the_end),
        TEST(a_rise_at_every_look_is_no_staircase),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tide_arena_release(&arena);
    return failed;
}
