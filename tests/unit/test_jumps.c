/*
 * test_jumps.c - the judge on floors that take steps: one, a few, one after another, and what rises beside.
 */
#include "base/arena.h"
#include "judge/judge.h"
#include "judged_series.h"
#include "show/text/verdict_text.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

static void one_jump_is_a_jump_where_it_was(void **state)
{
    (void)state;
    fill(1000, 4e9, 0, 5e6);
    for (size_t i = 613; i < 1000; i++)
        ys[i] += 1e9;
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_JUMP);
    assert_true(v.jump_x == 613);
    assert_true(fabs(v.jump_bytes / 1e9 - 1) < 0.02);
}

/* The floor is known by windows. What lies between the step and the next of them is the step. */
static void a_jump_is_no_spike(void **state)
{
    (void)state;
    for (size_t at = 150; at < 190; at += 7) {
        fill(400, 1e9, 0, 1e5);
        for (size_t i = at; i < 400; i++)
            ys[i] += 1e8;
        struct tide_verdict v = judge(input_of(400));
        assert_int_equal(v.kind, TIDE_JUMP);
        assert_int_equal(v.spikes.count, 0);
    }
}

static void fill_with_jump(double rate, double shake, double height)
{
    fill(120, 1e7, rate, shake);
    for (size_t i = 60; i < 120; i++)
        ys[i] += height;
}

/* However large the jump is, what goes on rising beside it is a leak, with its own rate. */
static void a_leak_beside_a_jump_is_one(void **state)
{
    (void)state;
    for (double height = 1.5e7; height <= 1.8e8; height += 1.65e8) {
        fill_with_jump(7000, 2e4, height);
        struct tide_verdict v = judge(input_of(120));
        assert_int_equal(v.kind, TIDE_LEAK);
        assert_true(fabs(v.slope / 7000 - 1) < 0.1 && v.slope_low < v.slope && v.slope < v.slope_high);
        assert_true(fabs(v.jump_bytes / height - 1) < 0.02);
        assert_true(v.jump_x == 60);
    }
}

/* Whether it leaks as well is not decided; that it jumped is. A rise of next to nothing beside the jump does
 * not take its name away: what it is at the most is said. */
static void a_jump_is_told_beside_what_is_undecided(void **state)
{
    (void)state;
    size_t undecided = 0, rising = 0;
    dice = 1;
    for (int series = 0; series < 20; series++) {
        fill_with_jump(14000, 7.5e5, 1.5e7);
        struct tide_verdict v = judge(input_of(120));
        assert_true(v.jump_x == 60);
        undecided += v.kind == TIDE_UNDECIDED;
        fill_with_jump(14000, 7.5e5, 1.8e8);
        v = judge(input_of(120));
        assert_true(v.kind == TIDE_JUMP || v.kind == TIDE_LEAK);
        assert_true(v.jump_x == 60 && isnan(v.detectable));
        rising += v.kind == TIDE_JUMP && v.slope_high > 14000;
    }
    assert_true(undecided >= 10 && rising >= 10);
}

/* A heap that is larger after each of the first two validations, and stops where the first pass over the data
 * ends: it does not hold the data. */
static void two_steps_up_are_no_pass_over_the_data(void **state)
{
    (void)state;
    fill(240, 158e6, 0, 1e6);
    for (size_t i = 0; i < 240; i++) {
        xs[i] = 2 * (double)i;
        if (i >= 13)
            ys[i] = i < 26 ? 172.6e6 : 176.6e6;
    }
    struct tide_judge_input input = input_of(240);
    input.items = 180;
    input.items_per_step = 4;
    assert_false(judge(input).one_pass);
}

/* A ring of PyTorch's that fills in the first thousand steps of a job of 397 MB. */
static void three_stairs_of_a_thousandth_are_no_leak(void **state)
{
    (void)state;
    fill(300, 396.3e6, 0, 2e4);
    for (size_t i = 0; i < 300; i++)
        ys[i] += 0.45e6 * ((i >= 30) + (i >= 38) + (i >= 100) + (i >= 180));
    struct tide_verdict v = judge(input_of(300));
    assert_int_not_equal(v.kind, TIDE_LEAK);
}

/* A heap of 385 MiB that needed one block of 3 MiB more, from step 15 on. */
static void a_jump_of_less_than_a_hundredth_is_flat(void **state)
{
    (void)state;
    for (double height = 3; height <= 6; height += 3) {
        fill(220, 385 * 0x1p20, 0, 0);
        for (size_t i = 0; i < 220; i++) {
            xs[i] = (double)i / 4;
            ys[i] += xs[i] >= 15 ? height * 0x1p20 : 0;
        }
        assert_int_equal(judge(input_of(220)).kind, height > 0.01 * 385 ? TIDE_JUMP : TIDE_FLAT);
    }
}

static void a_stair_per_epoch_is_a_leak_in_stairs(void **state)
{
    (void)state;
    fill(1000, 4e9, 0, 1e6);
    for (size_t i = 0; i < 1000; i++)
        ys[i] += 1e8 * floor((double)i / 100);
    double epochs[10];
    for (int i = 0; i < 10; i++)
        epochs[i] = 100 * i;
    struct tide_judge_input input = input_of(1000);
    assert_int_equal(judge(input).stairs_at, TIDE_STAIRS_BY_THEMSELVES);
    input.epochs = epochs;
    input.epoch_count = 10;
    struct tide_verdict v = judge(input);
    assert_int_equal(v.stairs_at, TIDE_STAIRS_AT_EPOCHS);
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_int_equal(v.shape, TIDE_SHAPE_STAIRCASE);
    assert_int_equal(v.stairs, 9);
    assert_true(fabs(v.slope / 1e6 - 1) < 0.05);
    assert_true(fabs(v.stair_period - 100) < 5);
}

/* A fine-tuning run on a busy machine. The line through all of it is bent by the look on the way up, and
 * rises by more than 5 % of the jump. */
static void the_way_up_is_no_rise_beside_a_jump(void **state)
{
    (void)state;
    static const struct {
        double x, mib;
    } looks[] = {{1, 166.7},  {2, 166.7},  {4, 166.7},  {5, 166.7},  {8, 166.7},  {12, 166.7},
                 {13, 166.7}, {14, 166.7}, {16, 166.7}, {17, 166.7}, {23, 166.7}, {25, 184.7},
                 {26, 452.4}, {27, 458.4}, {28, 458.5}, {30, 458.7}, {31, 458.8}, {32, 458.9},
                 {33, 458.9}, {34, 461.1}, {36, 461.4}, {37, 461.5}, {38, 461.5}, {39, 461.5}};
    enum { COUNT = sizeof looks / sizeof *looks, AFTER = 12 };
    for (size_t i = 0; i < COUNT; i++) {
        xs[i] = looks[i].x;
        ys[i] = looks[i].mib * 0x1p20;
    }
    assert_int_equal(judge(input_of(COUNT)).kind, TIDE_JUMP);
    for (size_t i = AFTER; i < COUNT; i++)
        ys[i] += 1e6 * (looks[i].x - looks[AFTER].x);
    assert_int_not_equal(judge(input_of(COUNT)).kind, TIDE_JUMP);
}

/* Most of such runs are undecided. */
static struct tide_verdict judge_irregular_stairs(void)
{
    static const size_t at[] = {100, 130, 330, 350, 380, 610, 640, 850, 870};
    fill(1000, 4e9, 0, 1e6);
    for (size_t i = 0; i < 1000; i++)
        for (size_t k = 0; k < sizeof at / sizeof *at; k++)
            ys[i] += i >= at[k] ? 1e8 : 0;
    return judge(input_of(1000));
}

static void stairs_have_a_period_only_if_they_are_regular(void **state)
{
    (void)state;
    struct tide_verdict v = {.kind = TIDE_UNDECIDED};
    for (int turn = 0; turn < 20 && v.kind != TIDE_LEAK; turn++) {
        v = judge_irregular_stairs();
        assert_true(v.kind == TIDE_LEAK || v.kind == TIDE_UNDECIDED);
    }
    assert_int_equal(v.shape, TIDE_SHAPE_STAIRCASE);
    assert_true(isnan(v.stair_period));
    struct tide_judged judged = {.verdict = v, .x_is_steps = true};
    struct tide_assessment assessment = {0};
    char text[512];
    tide_judged_sentence(&judged, &assessment, text, sizeof text);
    assert_non_null(strstr(text, " jumps"));
    assert_null(strstr(text, "apart"));
    judged.verdict.stair_period = 96;
    tide_judged_sentence(&judged, &assessment, text, sizeof text);
    assert_non_null(strstr(text, " jumps about 96 steps apart"));
}

/* A run of 26 steps that rises by so many KiB at each of four steps. */
static struct tide_verdict judge_jumps(const int at[4], const int kib[4])
{
    for (size_t i = 0; i < 26; i++) {
        xs[i] = (double)i;
        ys[i] = 1.2e8 + 4096 * (double)(i % 3);
        for (int k = 0; k < 4; k++)
            ys[i] += (int)i >= at[k] ? kib[k] * 1024.0 : 0;
    }
    return judge(input_of(26));
}

static void a_few_uneven_jumps_are_no_staircase_yet(void **state)
{
    (void)state;
    assert_int_equal(judge_jumps((int[]){6, 12, 14, 22}, (int[]){60, 910, 860, 1100}).kind, TIDE_UNDECIDED);
    assert_int_equal(judge_jumps((int[]){7, 15, 22, 24}, (int[]){400, 310, 1070, 1050}).kind, TIDE_UNDECIDED);
    struct tide_verdict even = judge_jumps((int[]){5, 11, 17, 23}, (int[]){900, 910, 890, 900});
    assert_int_equal(even.kind, TIDE_LEAK);
    assert_int_equal(even.shape, TIDE_SHAPE_STAIRCASE);
    assert_true(even.slope_low <= 150 * 1024 && 150 * 1024 <= even.slope_high);
}

static void a_jump_that_was_taken_back_once_began_where_it_was_first_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < 400; i++) {
        xs[i] = (double)i;
        bool up = (i >= 240 && i < 260) || i >= 268;
        ys[i] = (up ? 4e8 : 2e8) + 1e5 * noise() + (i % 50 == 49 && i < 240 ? 3e8 : 0);
    }
    struct tide_verdict v = judge(input_of(400));
    assert_int_equal(v.kind, TIDE_JUMP);
    assert_true(v.jump_x == 240);
    assert_true(v.jump_after == 239);
    for (size_t i = 0; i < 400; i++) /* work in progress as high as the step, for most of the time: a habit */
        ys[i] = (i >= 240 ? 2.2e8 : 2e8) + 1e4 * noise() + (i % 5 < 3 ? 1e8 : 0);
    v = judge(input_of(400));
    assert_int_equal(v.kind, TIDE_JUMP);
    assert_true(v.jump_x >= 240 && v.jump_x <= 245);
}

/* What a Java program took that keeps 1 MiB a step, as steps and MiB: its collector moves everything now and
 * then. */
static void a_rise_with_a_jump_in_it_is_not_level_before_and_after(void **state)
{
    (void)state;
    static const short looks[][2] = {
        {0, 20},    {2, 23},    {4, 25},    {6, 28},    {9, 30},    {11, 33},   {13, 36},   {16, 38},
        {18, 40},   {20, 44},   {23, 46},   {25, 49},   {28, 51},   {30, 86},   {33, 87},   {35, 89},
        {38, 91},   {40, 93},   {42, 95},   {45, 96},   {47, 99},   {50, 100},  {52, 101},  {55, 104},
        {57, 105},  {59, 107},  {62, 109},  {64, 111},  {67, 113},  {69, 115},  {71, 117},  {74, 118},
        {76, 121},  {79, 122},  {81, 124},  {84, 126},  {86, 127},  {88, 129},  {91, 131},  {93, 132},
        {95, 134},  {97, 136},  {100, 138}, {102, 140}, {105, 142}, {107, 144}, {110, 145}, {112, 160},
        {114, 208}, {114, 244}, {115, 244}, {117, 245}, {119, 245}, {122, 245}, {124, 246}, {126, 246},
        {128, 246}, {130, 247}, {133, 247}, {135, 248}, {137, 248}, {139, 248}, {141, 249}, {144, 249},
        {146, 249}, {148, 250}, {150, 250}, {153, 250}, {155, 251}, {157, 251}, {159, 251}, {161, 252},
        {163, 252}, {166, 253}, {167, 253}, {169, 253}, {171, 253}, {171, 254}, {173, 254}, {176, 254},
        {177, 254}, {178, 255}, {181, 255}, {182, 255}, {183, 256}, {185, 256}, {187, 256}, {189, 256},
        {189, 257}, {191, 257}, {193, 257}, {196, 258}, {198, 258}, {200, 258}, {203, 258}, {204, 258},
        {206, 259}, {208, 259}, {209, 260}, {212, 262}, {214, 264}, {216, 266}, {218, 268}, {220, 269},
        {220, 271}, {222, 274}, {226, 274}, {226, 276}, {227, 279}, {229, 281}, {231, 283}, {233, 285},
        {235, 287}, {238, 290}, {239, 292}, {241, 294}, {244, 298}, {246, 300}};
    enum { LOOKS = sizeof looks / sizeof *looks };
    for (size_t i = 0; i < LOOKS; i++) {
        xs[i] = looks[i][0];
        ys[i] = 1048576.0 * looks[i][1];
    }
    assert_int_equal(judge(input_of(LOOKS)).kind, TIDE_UNDECIDED);
}

/* Workers of a data loader keep what they decode in the first pass. Its last steps are no jump from a level,
 * although its first ones look like warm-up. */
static void the_end_of_an_early_rise_is_no_jump(void **state)
{
    (void)state;
    dice = 1;
    for (double knee = 0.1; knee <= 0.2; knee += 0.01) {
        fill(120, 7e7, 0, 2e4);
        for (size_t i = 0; i < 120; i++)
            ys[i] += 3.6e7 * fmin((double)i / (120 * knee), 1);
        struct tide_verdict v = judge(input_of(120));
        assert_int_equal(v.kind, TIDE_PLATEAU);
        assert_true(fabs(v.knee_x - 120 * knee) < 3);
    }
}

/* Each validation keeps its predictions, and takes a little more while it lasts. */
static void stairs_that_settle_grow_by_what_stays(void **state)
{
    (void)state;
    dice = 1;
    fill(1600, 4e8, 0, 2e4);
    for (size_t i = 0; i < 1600; i++)
        ys[i] += 6.4e6 * (double)(i / 80) + (i >= 80 ? 1.6e6 * fmax(1 - (double)(i % 80) / 60, 0) : 0);
    struct tide_verdict v = judge(input_of(1600));
    assert_int_equal(v.kind, TIDE_LEAK);
    assert_int_equal(v.shape, TIDE_SHAPE_STAIRCASE);
    assert_true(fabs(v.slope / 8e4 - 1) < 0.03);
}

/* A pool is made larger now and then. Behind the last of a few jumps there may be too little to tell a rate,
 * and a rate that may be zero is no leak's. */
static void what_may_not_rise_at_all_is_no_leak(void **state)
{
    (void)state;
    for (int run = 0; run < 1500; run++) {
        double slow = 0;
        fill(150, 400e6, 0, 0);
        for (size_t i = 0; i < 150; i++) {
            slow = 0.9 * slow + (run % 3 + 1) * 1e6 * noise();
            ys[i] += fabs(slow);
        }
        for (int jump = 0; jump < 3; jump++)
            for (size_t i = (size_t)(75 * (noise() + 1)); i < 150; i++)
                ys[i] += 8e6;
        struct tide_verdict v = judge(input_of(150));
        if (v.kind == TIDE_LEAK && v.shape == TIDE_SHAPE_LINEAR)
            assert_true(v.slope_low > 0);
    }
}

int main(void)
{
    tide_arena_init(&arena, (size_t)64 << 20);
    const struct CMUnitTest tests[] = {
        TEST(one_jump_is_a_jump_where_it_was),
        TEST(a_jump_is_no_spike),
        TEST(a_leak_beside_a_jump_is_one),
        TEST(a_jump_is_told_beside_what_is_undecided),
        TEST(two_steps_up_are_no_pass_over_the_data),
        TEST(three_stairs_of_a_thousandth_are_no_leak),
        TEST(a_jump_of_less_than_a_hundredth_is_flat),
        TEST(a_stair_per_epoch_is_a_leak_in_stairs),
        TEST(the_way_up_is_no_rise_beside_a_jump),
        TEST(stairs_have_a_period_only_if_they_are_regular),
        TEST(a_few_uneven_jumps_are_no_staircase_yet),
        TEST(a_jump_that_was_taken_back_once_began_where_it_was_first_up),
        TEST(a_rise_with_a_jump_in_it_is_not_level_before_and_after),
        TEST(the_end_of_an_early_rise_is_no_jump),
        TEST(what_may_not_rise_at_all_is_no_leak),
        TEST(stairs_that_settle_grow_by_what_stays),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tide_arena_release(&arena);
    return failed;
}
