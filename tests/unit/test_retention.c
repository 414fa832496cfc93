/*
 * test_retention.c - what is asked beside a verdict: whether a container that doubles is being filled, and
 * whether a rise is memory that nobody holds.
 */
#include "judge/doubling.h"
#include "judge/retention.h"
#include "judged_series.h"
#include "failing_malloc.h"

/* A container into which 1e5 bytes are put per step until `stop`, from 64 KiB on `factor` times as large
 * whenever full; while it is copied there are two of it. */
static bool container(size_t count, double factor, double stop, struct tide_doubling *ret)
{
    double size = 65536, held = 0;
    for (size_t i = 0; i < count; i++) {
        double old = 0;
        held += (double)i < stop ? 1e5 : 0;
        for (; held > size; size *= factor)
            old = size;
        xs[i] = (double)i;
        ys[i] = size + (i % 2 ? old : 0);
    }
    struct tide_judge_input input = input_of(count);
    bool found = tide_doubling_find(&input, &arena, ret);
    assert_null(arena.newest);
    return found;
}

static void a_container_that_doubles_is_filled_at_its_rate(void **state)
{
    (void)state;
    struct tide_doubling d;
    for (size_t count = 300; count <= 600; count += 50) { /* whatever the time since its last jump */
        assert_true(container(count, 2, INFINITY, &d));
        assert_true(fabs(d.slope / 1e5 - 1) < 0.02 && d.slope_low <= 1e5 * 1.001 &&
                    d.slope_high >= 1e5 * 0.999);
        assert_true(d.factor == 2 && d.jumps >= 5);
    }
    assert_true(container(500, 1.5, INFINITY, &d) && fabs(d.slope / 1e5 - 1) < 0.02);
}

static void what_stopped_filling_or_never_did_is_no_such_container(void **state)
{
    (void)state;
    struct tide_doubling d;
    assert_false(container(600, 2, 200, &d)); /* the next jump was due at step 262 */
    assert_false(container(600, 2, 2, &d));
    fill(500, 1e6, 1e5, 1e4); /* a straight rise, of blocks of its own */
    struct tide_judge_input input = input_of(500);
    assert_false(tide_doubling_find(&input, &arena, &d));
    for (size_t i = 0; i < 500; i++) /* doubles at equal times: it does not fill at a steady rate */
        ys[i] = ldexp(65536, (int)(i / 60));
    assert_false(tide_doubling_find(&input, &arena, &d));
    for (size_t i = 0; i < 500; i++) /* one jump */
        ys[i] = i < 250 ? 1e6 : 2e6;
    assert_false(tide_doubling_find(&input, &arena, &d));
    input.count = 1;
    assert_false(tide_doubling_find(&input, &arena, &d));
}

/* Live bytes beside a straight rise of 2e5 a step from 4e9: level + part * 2e5 a step. */
static struct tide_retention beside_a_rise(double level, double part, double kept, int *ret_known)
{
    static double lives[1000];
    struct tide_err err;
    struct tide_retention r = {0};
    fill(1000, 4e9, 2e5, 5e6);
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_LEAK);
    for (size_t i = 0; i < 1000; i++)
        lives[i] = level + part * 2e5 * (double)i + 1e6 * noise() + (i % 50 < 10 ? 5e8 : 0);
    struct tide_retention_input input = {
        .verdict = &v, .until_x = INFINITY, .live = input_of(1000), .kept_first = 0, .kept_last = kept};
    input.live.bytes = lives;
    *ret_known = tide_retention_judge(&input, &arena, &r, &err);
    assert_null(arena.newest);
    return r;
}

static void a_rise_that_nobody_holds_is_retention(void **state)
{
    (void)state;
    int known;
    struct tide_retention r = beside_a_rise(3e9, 0, NAN, &known);
    assert_int_equal(known, 1);
    assert_true(r.live_is_flat && r.retains);
    assert_true(fabs(r.live_bytes - 3e9) < 2e6); /* what is held for moments does not count */
    assert_true(fabs(r.not_live_bytes - 1.2e9) < 2e7);
    assert_true(r.live_low < 0 && r.live_high > 0 && r.live_high < 1e4);
    assert_true(beside_a_rise(3e9, 0, 1.5e8, &known).retains); /* three quarters of the growth */
    assert_true(beside_a_rise(3e9, 0.1, NAN, &known).retains);
}

#if HAVE_FAILING_MALLOC
static void lack_of_memory_is_an_error_and_not_an_answer(void **state)
{
    (void)state;
    NEEDS_FAILING_MALLOC();
    static double lives[1000];
    struct tide_err err;
    struct tide_retention r;
    fill(1000, 4e9, 2e5, 5e6);
    struct tide_verdict v = judge(input_of(1000));
    for (size_t i = 0; i < 1000; i++)
        lives[i] = 3e9 + 1e6 * noise();
    struct tide_retention_input input = {.verdict = &v, .until_x = INFINITY, .live = input_of(1000)};
    input.live.bytes = lives;
    bool failed = true;
    for (long good = 0; failed; good++) {
        failing_arm(good);
        int known = tide_retention_judge(&input, &arena, &r, &err);
        failed = failing_disarm();
        assert_int_equal(known, failed ? -1 : 1);
        assert_null(arena.newest);
    }
}
#endif

static void a_rise_that_is_held_or_came_from_elsewhere_is_not(void **state)
{
    (void)state;
    int known;
    assert_false(beside_a_rise(3e9, 1, NAN, &known).live_is_flat);
    assert_false(beside_a_rise(3e9, 0.3, NAN, &known).retains);
    struct tide_retention r = beside_a_rise(3e9, 0, 5e7, &known); /* the allocator has a quarter of it */
    assert_true(r.live_is_flat && !r.retains);
    r = beside_a_rise(4.1e9, 0, NAN, &known); /* held from the beginning, touched late */
    assert_true(r.live_is_flat && !r.retains);
}

/* A jump at this step, since when each step asks for more and gives it back. */
static void given_back_since(size_t jump)
{
    static double lives[1000];
    struct tide_err err;
    struct tide_retention r = {0};
    for (size_t i = 0; i < 1000; i++) {
        xs[i] = (double)i;
        ys[i] = (i < jump ? 3e8 : 5e8) + 1e5 * noise();
        lives[i] = 2e8 + 1e5 * noise() + (i % 10 < 7 ? (i < jump ? 1e7 : 2.2e8) : 0);
    }
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_JUMP);
    struct tide_retention_input input = {
        .verdict = &v, .until_x = INFINITY, .live = input_of(1000), .kept_first = 0, .kept_last = 2e8};
    input.live.bytes = lives;
    assert_int_equal(tide_retention_judge(&input, &arena, &r, &err), 1);
    assert_true(r.live_is_flat && r.crest_rises && !r.retains);
    assert_true(fabs(r.crest_first - 2.1e8) < 1e6 && fabs(r.crest_last - 4.2e8) < 1e6);
    for (size_t i = 0; i < 1000; i++) /* the same without what each step asks for */
        lives[i] = 2e8 + 1e5 * noise();
    assert_int_equal(tide_retention_judge(&input, &arena, &r, &err), 1);
    assert_true(!r.crest_rises && r.retains);
}

static void a_rise_that_is_asked_for_in_every_step_and_given_back_is_not_retention(void **state)
{
    (void)state;
    given_back_since(500);
    given_back_since(200); /* the first third has seen it already */
}

/* Beside a straight rise of 2e5 a step: what is held for a while now and then, by `bytes` at most. */
static struct tide_retention held_for_a_while(bool (*is_held)(size_t step), double (*bytes)(size_t step))
{
    static double lives[1000];
    struct tide_err err;
    struct tide_retention r = {0};
    fill(1000, 4e9, 2e5, 5e6);
    struct tide_verdict v = judge(input_of(1000));
    assert_int_equal(v.kind, TIDE_LEAK);
    for (size_t i = 0; i < 1000; i++)
        lives[i] = 3e9 + 1e6 * noise() + (is_held(i) ? bytes(i) : 0);
    struct tide_retention_input input = {
        .verdict = &v, .until_x = INFINITY, .live = input_of(1000), .kept_first = 0, .kept_last = 2e8};
    input.live.bytes = lives;
    assert_int_equal(tide_retention_judge(&input, &arena, &r, &err), 1);
    return r;
}

static bool after_each_epoch(size_t step)
{
    return step > 340 && step % 313 < 30;
}

static bool after_the_last_epoch(size_t step)
{
    return step >= 720 && step < 760;
}

static bool in_every_step(size_t step)
{
    return step % 10 < 7;
}

static double as_much_each_time(size_t step)
{
    (void)step;
    return 4e8;
}

static double more_each_time(size_t step)
{
    return 2e5 * (double)step;
}

static void a_steady_rise_does_not_come_from_what_is_held_after_an_epoch(void **state)
{
    (void)state;
    struct tide_retention r = held_for_a_while(after_each_epoch, as_much_each_time);
    assert_true(r.live_is_flat && !r.crest_rises && !r.freed_again && r.retains);
    r = held_for_a_while(after_the_last_epoch, as_much_each_time);
    assert_true(r.live_is_flat && !r.crest_rises && !r.freed_again && r.retains);
    r = held_for_a_while(in_every_step, more_each_time);
    assert_true(r.live_is_flat && r.crest_rises && r.freed_again && !r.retains);
}

/* A trainer that went over all it had stored from step 13 on, as it was recorded: what it held at each look,
 * in MB, but that looks meet the end of a step more or less closely: the interval of its level is wide. */
static void looks_that_are_few_do_not_hide_what_each_step_asks_for(void **state)
{
    (void)state;
    static const int at[] = {
        1,  2,  3,  4,  5,  6,  7,  8,  8,  9,  10, 11, 12, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13,
        14, 14, 14, 14, 14, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 16, 16, 16, 16, 16, 16,
        16, 16, 16, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18, 18,
        18, 18, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20,
        20, 21, 21, 21, 21, 21, 21, 21, 21, 21, 22, 22, 22, 22, 22, 22, 22, 22, 22, 23, 23, 23, 23, 23, 23,
        23, 23, 24, 24, 24, 24, 24, 24, 24, 24, 24, 25, 25, 25, 25, 25, 25, 25, 25, 26, 26, 26, 26, 26, 26,
        26, 26, 26, 27, 27, 27, 27, 27, 27, 27, 27, 27, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28, 28};
    static const int held[] = {
        125, 125, 127, 120, 117, 117, 117, 117, 137, 129, 135, 117, 120, 117, 166, 224, 306, 383, 453, 405,
        347, 307, 252, 195, 145, 117, 170, 312, 437, 400, 341, 288, 229, 178, 117, 195, 342, 444, 410, 358,
        305, 246, 193, 146, 117, 247, 374, 431, 385, 333, 287, 227, 174, 118, 166, 310, 445, 377, 321, 259,
        217, 164, 132, 121, 137, 230, 330, 428, 439, 394, 362, 323, 285, 244, 212, 167, 132, 118, 146, 257,
        373, 449, 406, 336, 310, 261, 223, 167, 145, 118, 199, 264, 326, 433, 411, 365, 325, 271, 245, 203,
        144, 118, 228, 367, 425, 369, 303, 241, 185, 118, 173, 323, 447, 381, 342, 280, 223, 205, 142, 131,
        280, 424, 402, 339, 283, 217, 158, 118, 232, 388, 421, 363, 310, 248, 193, 130, 130, 261, 397, 408,
        344, 286, 224, 176, 118, 172, 285, 422, 404, 345, 287, 231, 174, 118, 182, 325, 443, 385, 319, 257,
        199, 132, 121, 276, 428, 436, 379, 317, 260, 198, 149, 116, 112, 71,  49};
    size_t count = sizeof at / sizeof *at;
    static double lives[MOST];
    struct tide_err err;
    struct tide_retention r = {0};
    for (size_t i = 0; i < count; i++) {
        xs[i] = at[i];
        ys[i] = at[i] < 13 ? 1.68e8 : 4.74e8;
        lives[i] = 1e6 * (at[i] < 13 ? held[i] : fmax(held[i], 117 + at[i] * 37 % 97));
    }
    struct tide_verdict v = judge(input_of(count));
    assert_int_equal(v.kind, TIDE_JUMP);
    struct tide_retention_input input = {
        .verdict = &v, .until_x = INFINITY, .live = input_of(count), .kept_first = 0, .kept_last = 3e8};
    input.live.bytes = lives;
    assert_int_equal(tide_retention_judge(&input, &arena, &r, &err), 1);
    assert_true(!r.live_is_flat && r.crest_rises && r.freed_again && !r.retains);
    for (size_t i = 0; i < count; i++) /* a level that rises as much is none that is freed again */
        lives[i] = 1e6 * (held[i] > 200 ? 400 : 110) + (at[i] < 13 ? 0 : 3e8);
    assert_int_equal(tide_retention_judge(&input, &arena, &r, &err), 1);
    assert_false(r.freed_again);
}

static void retention_is_not_asked_of_what_did_not_rise(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_retention r;
    fill(1000, 4e9, 0, 5e6);
    struct tide_verdict v = judge(input_of(1000));
    struct tide_retention_input input = {
        .verdict = &v, .until_x = INFINITY, .live = input_of(1000), .kept_first = NAN, .kept_last = NAN};
    assert_int_equal(tide_retention_judge(&input, &arena, &r, &err), 0);
    fill(1000, 4e9, 2e5, 5e6);
    v = judge(input_of(1000));
    input.live.count = 0;
    assert_int_equal(tide_retention_judge(&input, &arena, &r, &err), 0);
}

int main(void)
{
    tide_arena_init(&arena, (size_t)64 << 20);
    const struct CMUnitTest tests[] = {
        TEST(a_container_that_doubles_is_filled_at_its_rate),
        TEST(what_stopped_filling_or_never_did_is_no_such_container),
        TEST(a_rise_that_nobody_holds_is_retention),
#if HAVE_FAILING_MALLOC
        TEST(lack_of_memory_is_an_error_and_not_an_answer),
#endif
        TEST(a_rise_that_is_held_or_came_from_elsewhere_is_not),
        TEST(a_rise_that_is_asked_for_in_every_step_and_given_back_is_not_retention),
        TEST(a_steady_rise_does_not_come_from_what_is_held_after_an_epoch),
        TEST(looks_that_are_few_do_not_hide_what_each_step_asks_for),
        TEST(retention_is_not_asked_of_what_did_not_rise),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tide_arena_release(&arena);
    return failed;
}
