/* The hook's tables: sampled blocks, mappings, and the arithmetic of sampling. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "hook/draw.h"
#include "hook/pointers.h"
#include "hook/ranges.h"
#include "hook/wiped.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ---- pointers */

enum { MODEL = 4096 };

static void the_map_is_what_a_plain_array_would_be(void **state)
{
    (void)state;
    static struct tide_pointers_block model[MODEL];
    uint64_t random = 1, count = tide_pointers_count();
    for (int round = 0; round < 300000; round++) {
        uint64_t r = next_random(&random), i = r % MODEL;
        const void *pointer = (const void *)(uintptr_t)(0x7f0000001010 + i * 48);
        struct tide_pointers_block found = {0};
        if (next_random(&random) % 2) {
            struct tide_pointers_block block = {
                .bytes = r, .blocks = 1 + (uint32_t)round, .site = (uint32_t)i};
            assert_int_equal(tide_pointers_add(pointer, block, &found), TIDE_POINTERS_DONE);
            assert_int_equal(found.blocks, model[i].blocks);
            count += !model[i].blocks;
            model[i] = block;
            assert_true(tide_pointers_may_hold(pointer));
        } else {
            enum tide_pointers_result result = tide_pointers_take(pointer, &found);
            assert_int_equal(result, model[i].blocks ? TIDE_POINTERS_DONE : TIDE_POINTERS_ABSENT);
            assert_int_equal(found.blocks, model[i].blocks);
            assert_int_equal(found.bytes, model[i].bytes);
            count -= model[i].blocks != 0;
            model[i] = (struct tide_pointers_block){0};
        }
        assert_int_equal(tide_pointers_count(), count);
    }
    for (uint64_t i = 0; i < MODEL; i++) {
        struct tide_pointers_block found;
        tide_pointers_take((const void *)(uintptr_t)(0x7f0000001010 + i * 48), &found);
    }
    assert_int_equal(tide_pointers_count(), 0);
    /* Nothing is left in the filter either: no counter went above its maximum. */
    for (size_t i = 0; i < sizeof tide_pointers_filter; i++)
        assert_int_equal(tide_pointers_filter[i], 0);
}

static void a_full_map_says_so_and_empties_again(void **state)
{
    (void)state;
    uint64_t added = 0, most = (uint64_t)TIDE_POINTERS_SHARDS * TIDE_POINTERS_SHARD_MOST;
    struct tide_pointers_block old, block = {.bytes = 1, .blocks = 1};
    for (uint64_t i = 1; i <= most; i++)
        added += tide_pointers_add((const void *)(uintptr_t)(i * 64), block, &old) == TIDE_POINTERS_DONE;
    assert_true(added >= most / 10 * 7 && added <= most / 4 * 3);
    assert_int_equal(tide_pointers_count(), added);
    assert_true(tide_pointers_bytes() <= 24 * most);
    for (uint64_t i = 1; i <= most; i++)
        added -= tide_pointers_take((const void *)(uintptr_t)(i * 64), &old) == TIDE_POINTERS_DONE;
    assert_int_equal(added, 0);
    assert_int_equal(tide_pointers_count(), 0);
}

static void *use_map(void *argument)
{
    uintptr_t base = (uintptr_t)argument << 32;
    struct tide_pointers_block block = {.bytes = 1, .blocks = 1}, found;
    long wrong = 0;
    for (int round = 0; round < 200; round++) {
        for (uintptr_t i = 1; i <= 100; i++)
            wrong += tide_pointers_add((const void *)(base + i * 32), block, &found) != TIDE_POINTERS_DONE;
        for (uintptr_t i = 1; i <= 100; i++)
            wrong += tide_pointers_take((const void *)(base + i * 32), &found) != TIDE_POINTERS_DONE;
    }
    return (void *)wrong;
}

static void threads_share_the_map(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_map, (void *)(i + 1)), 0);
    for (int i = 0; i < 8; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(tide_pointers_count(), 0);
}

static void a_latch_that_is_never_released_is_given_up_once(void **state)
{
    (void)state;
    tide_latch latch = TIDE_LATCH_HELD;
    assert_false(tide_latch_take(&latch));
    assert_int_equal(latch, TIDE_LATCH_ABANDONED);
    for (int i = 0; i < 1000000; i++) /* at once now: this would take hours otherwise */
        assert_false(tide_latch_take(&latch));
    tide_latch_release(&latch);
    assert_true(tide_latch_take(&latch));
}

/* ---- mappings */

enum { PAGES = 512 };
static uint32_t page_site[PAGES]; /* site + 1 of each page, 0: none */
static int64_t live_bytes[8], live_pieces[8];

static void on_change(void *context, uint32_t site, int64_t bytes, int64_t pieces)
{
    (void)context;
    live_bytes[site] += bytes;
    live_pieces[site] += pieces;
}

static void cut(uintptr_t from, uintptr_t to)
{
    assert_int_equal(tide_ranges_cut(from * 4096, to * 4096, on_change, NULL), 0);
    for (uintptr_t i = from; i < to; i++)
        page_site[i] = 0;
}

static void mappings_are_what_an_array_of_pages_would_be(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int round = 0; round < 20000; round++) {
        uintptr_t from = next_random(&random) % PAGES, to = from + 1 + next_random(&random) % (PAGES - from);
        cut(from, to);
        if (next_random(&random) % 2 && to - from < 40) {
            uint32_t site = (uint32_t)(next_random(&random) % 8);
            assert_int_equal(tide_ranges_add(from * 4096, to * 4096, site), 0);
            live_bytes[site] += (int64_t)(to - from) * 4096;
            live_pieces[site]++;
            for (uintptr_t i = from; i < to; i++)
                page_site[i] = site + 1;
        }
        int64_t pages[8] = {0};
        for (int i = 0; i < PAGES; i++)
            if (page_site[i])
                pages[page_site[i] - 1]++;
        for (int i = 0; i < 8; i++) {
            assert_int_equal(live_bytes[i], pages[i] * 4096);
            assert_true(live_pieces[i] >= 0 && (live_pieces[i] > 0) == (pages[i] > 0));
        }
    }
    cut(0, PAGES);
    assert_false(tide_ranges_any());
    for (int i = 0; i < 8; i++)
        assert_int_equal(live_pieces[i], 0);
}

static void a_full_list_of_mappings_refuses(void **state)
{
    (void)state;
    live_bytes[0] = live_pieces[0] = 0;
    for (uintptr_t i = 0; i < TIDE_RANGES_MOST; i++)
        assert_int_equal(tide_ranges_add(i * 16384, i * 16384 + 12288, 0), 0);
    assert_int_equal(
        tide_ranges_add((uintptr_t)TIDE_RANGES_MOST * 16384, (uintptr_t)TIDE_RANGES_MOST * 16384 + 4096, 0),
        -1);
    /* A cut in the middle needs one more place, which is not there: the rest is told as lost. */
    assert_int_equal(tide_ranges_cut(4096, 8192, on_change, NULL), 0);
    assert_int_equal(live_bytes[0], -8192);
    assert_int_equal(tide_ranges_cut(0, UINTPTR_MAX, on_change, NULL), 0);
    assert_int_equal(live_bytes[0], -(int64_t)TIDE_RANGES_MOST * 12288);
    assert_int_equal(live_pieces[0], -(int64_t)TIDE_RANGES_MOST);
    assert_false(tide_ranges_any());
}

/* ---- sampling */

static void logarithm_and_probability_are_accurate(void **state)
{
    (void)state;
    for (double x = 1e-300; x < 1e300; x *= 1.37)
        assert_true(fabs(tide_draw_log(x) - log(x)) <= 1e-10 * fmax(1, fabs(log(x))));
    for (double x = 1e-9; x < 60; x *= 1.01)
        assert_true(fabs(tide_draw_probability(x) - -expm1(-x)) <= 1e-11 * -expm1(-x));
    assert_true(tide_draw_probability(0) == 0);
}

static void gaps_between_samples_are_exponential(void **state)
{
    (void)state;
    uint64_t random = 42;
    double sum = 0, squares = 0, interval = 524288;
    int draws = 1000000, beyond = 0;
    for (int i = 0; i < draws; i++) {
        double gap = (double)tide_draw_next(&random, interval) / interval;
        assert_true(gap >= 0);
        sum += gap;
        squares += gap * gap;
        beyond += gap > 3;
    }
    double error = 1 / sqrt(draws);
    assert_true(fabs(sum / draws - 1) < 2 * error);
    assert_true(fabs(squares / draws - 2) < 2 * sqrt(20) * error);
    assert_true(fabs((double)beyond / draws - exp(-3)) < 2 * sqrt(exp(-3)) * error);
}

/* What the recorder does with a countdown, for blocks of one size: bytes and blocks it would count. */
static void sample(uint64_t *random, size_t bytes, long blocks, double interval, double *ret_bytes,
                   double *ret_blocks)
{
    int64_t left = tide_draw_next(random, interval);
    double p = tide_draw_probability((double)bytes / interval);
    *ret_bytes = *ret_blocks = 0;
    for (long i = 0; i < blocks; i++)
        if ((left -= (int64_t)bytes) < 0) {
            *ret_bytes += (double)tide_draw_round(random, (double)bytes / p);
            *ret_blocks += (double)tide_draw_round(random, 1 / p);
            left = tide_draw_next(random, interval);
        }
}

static void what_is_counted_is_unbiased_for_every_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 16, 100, 1000, 10000, 60000, 131071};
    double interval = 524288;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        long seeds = 400, blocks = (long)(8 * interval / (double)sizes[s]) + 1;
        double bytes_sum = 0, blocks_sum = 0, p = -expm1(-(double)sizes[s] / interval);
        for (long seed = 1; seed <= seeds; seed++) {
            uint64_t random = (uint64_t)seed * 0x9e3779b97f4a7c15u;
            double counted, number;
            for (int i = 0; i < 4; i++)
                tide_draw_bits(&random);
            sample(&random, sizes[s], blocks, interval, &counted, &number);
            bytes_sum += counted;
            blocks_sum += number;
        }
        double error = sqrt((double)blocks * (1 - p) / p / (double)seeds); /* in blocks */
        assert_true(fabs(blocks_sum / (double)seeds - (double)blocks) < 2 * error);
        assert_true(fabs(bytes_sum / (double)seeds / (double)sizes[s] - (double)blocks) < 2 * error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_is_what_a_plain_array_would_be),
        cmocka_unit_test(a_full_map_says_so_and_empties_again),
        cmocka_unit_test(threads_share_the_map),
        cmocka_unit_test(a_latch_that_is_never_released_is_given_up_once),
        cmocka_unit_test(mappings_are_what_an_array_of_pages_would_be),
        cmocka_unit_test(a_full_list_of_mappings_refuses),
        cmocka_unit_test(logarithm_and_probability_are_accurate),
        cmocka_unit_test(gaps_between_samples_are_exponential),
        cmocka_unit_test(what_is_counted_is_unbiased_for_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
