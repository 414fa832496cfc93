/* The hook's tables: sampled blocks, mappings, and the arithmetic of sampling. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "hook/blocks.h"
#include "hook/draw.h"
#include "hook/latch.h"
#include "hook/pointers.h"
#include "hook/ranges.h"
#include "sanitized.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
    uint64_t random = 1, count = tide_pointers_totals.count;
    for (int round = 0; round < 300000; round++) {
        uint64_t r = next_random(&random), i = r % MODEL;
        const void *pointer = (const void *)(uintptr_t)(0x7f0000001010 + i * 48);
        struct tide_pointers_block found = {0};
        if (next_random(&random) % 2) {
            struct tide_pointers_block block = {
                .bytes = r, .blocks = 1 + (uint32_t)round, .site = (uint16_t)i};
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
        assert_int_equal(tide_pointers_totals.count, count);
    }
    for (uint64_t i = 0; i < MODEL; i++) {
        struct tide_pointers_block found;
        tide_pointers_take((const void *)(uintptr_t)(0x7f0000001010 + i * 48), &found);
    }
    assert_int_equal(tide_pointers_totals.count, 0);
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
    assert_int_equal(tide_pointers_totals.count, added);
    assert_true(tide_pointers_totals.bytes <= 24 * most);
    for (uint64_t i = 1; i <= most; i++)
        added -= tide_pointers_take((const void *)(uintptr_t)(i * 64), &old) == TIDE_POINTERS_DONE;
    assert_int_equal(added, 0);
    assert_int_equal(tide_pointers_totals.count, 0);
}

/* ---- blocks of pools */

static struct tide_pointers_block pooled[MODEL];
static uint64_t dropped_bytes;

static uintptr_t pooled_at(uint64_t i)
{
    return 0x7e0000000000 + i * 40; /* about a hundred to a page */
}

static void on_block(void *context, struct tide_pointers_block block)
{
    uint64_t *count = context;
    ++*count;
    dropped_bytes += block.bytes;
    assert_int_equal(pooled[block.blocks].bytes, block.bytes);
    pooled[block.blocks] = (struct tide_pointers_block){0};
}

/* Drops [start, end): what is given back is what the plain array has there, and nothing else goes. */
static void drop(uintptr_t start, uintptr_t end)
{
    uint64_t expected = 0, given = 0;
    for (uint64_t i = 0; i < MODEL; i++)
        expected += pooled[i].bytes && pooled_at(i) >= start && pooled_at(i) < end;
    assert_int_equal(tide_pointers_take_range(start, end, on_block, &given), 0);
    assert_int_equal(given, expected);
    for (uint64_t i = 0; i < MODEL; i++)
        if (pooled[i].bytes)
            assert_true(pooled_at(i) < start || pooled_at(i) >= end);
}

static void stretches_of_a_pool_are_what_a_plain_array_would_be(void **state)
{
    (void)state;
    uint64_t random = 3;
    struct tide_pointers_block old, own = {.bytes = 7, .blocks = 1};
    for (uint64_t i = 0; i < MODEL; i += 4) /* blocks of malloc at the same addresses are none of it */
        assert_int_equal(tide_pointers_add((const void *)pooled_at(i), own, &old), TIDE_POINTERS_DONE);
    for (int round = 0; round < 40000; round++) {
        uint64_t i = next_random(&random) % MODEL, j = next_random(&random) % 400;
        const void *key = tide_pointers_pooled((const void *)pooled_at(i));
        struct tide_pointers_block block = {.bytes = 1 + i, .blocks = (uint32_t)i};
        if (j == 0) {
            drop(pooled_at(i) - 8, pooled_at(i + next_random(&random) % 900));
        } else if (j == 1) {
            drop(0, next_random(&random) % 2 ? TIDE_POINTERS_POOL : pooled_at(i));
        } else if (next_random(&random) % 4) {
            assert_int_equal(tide_pointers_add(key, block, &old), TIDE_POINTERS_DONE);
            assert_int_equal(old.bytes, pooled[i].bytes);
            assert_true(tide_pointers_page_may_hold(pooled_at(i)));
            pooled[i] = block;
        } else {
            assert_int_equal(tide_pointers_take(key, &old),
                             pooled[i].bytes ? TIDE_POINTERS_DONE : TIDE_POINTERS_ABSENT);
            pooled[i] = (struct tide_pointers_block){0};
        }
    }
    drop(0, TIDE_POINTERS_POOL);
    assert_true(dropped_bytes > 0);
    assert_int_equal(tide_pointers_totals.pooled, 0);
    for (uint64_t i = 0; i < MODEL; i += 4)
        assert_int_equal(tide_pointers_take((const void *)pooled_at(i), &old), TIDE_POINTERS_DONE);
    assert_int_equal(tide_pointers_totals.count, 0);
    for (size_t i = 0; i < sizeof tide_pointers_pages; i++)
        assert_int_equal(tide_pointers_pages[i], 0);
}

static void a_stretch_that_makes_no_sense_is_empty(void **state)
{
    (void)state;
    uint64_t given = 0;
    assert_int_equal(tide_pointers_take_range(5, 5, on_block, &given), 0);
    assert_int_equal(tide_pointers_take_range(9, 5, on_block, &given), 0);
    assert_int_equal(tide_pointers_take_range(0, UINTPTR_MAX, on_block, &given), 0);
    assert_int_equal(given, 0);
}

static void *use_map(void *argument)
{
    uintptr_t base = (uintptr_t)argument << 32;
    struct tide_pointers_block block = {.bytes = 1, .blocks = 1};
    struct tide_pointers_block old;
    long wrong = 0;
    for (int round = 0; round < 200; round++) {
        for (uintptr_t i = 1; i <= 100; i++)
            wrong += tide_pointers_add((const void *)(base + i * 32), block, &old) != TIDE_POINTERS_DONE;
        for (uintptr_t i = 1; i <= 100; i++)
            wrong += tide_pointers_take((const void *)(base + i * 32), &old) != TIDE_POINTERS_DONE;
    }
    return (void *)wrong;
}

static void on_own_block(void *context, struct tide_pointers_block block)
{
    *(long *)context += block.bytes == 1;
}

/* The same with blocks of a pool, which are dropped as a stretch. */
static void *use_pool(void *argument)
{
    uintptr_t base = (uintptr_t)argument << 32;
    struct tide_pointers_block block = {.bytes = 1, .blocks = 1};
    struct tide_pointers_block old;
    long wrong = 0;
    for (int round = 0; round < 200; round++) {
        long dropped = 0;
        for (uintptr_t i = 1; i <= 100; i++)
            wrong += tide_pointers_add(tide_pointers_pooled((const void *)(base + i * 100)), block, &old) !=
                     TIDE_POINTERS_DONE;
        wrong += tide_pointers_take_range(base, base + 101 * 100, on_own_block, &dropped) != 0;
        wrong += dropped != 100;
    }
    return (void *)wrong;
}

static void threads_share_the_map(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? use_map : use_pool, (void *)(i / 2 + 1)),
                         0);
    for (int i = 0; i < 8; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(tide_pointers_totals.count, 0);
}

/* ---- latches */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A thread that takes the latch, tells so, and does one of these with it. */
enum way { SLOWLY, ASLEEP, ELSEWHERE, ENDED };

struct holder {
    tide_latch latch;
    enum way way;
    atomic_bool has_it, is_over;
    sem_t let_go;
    int64_t held_ns;
};

static void *hold(void *argument)
{
    struct holder *h = argument;
    if (h->way == SLOWLY) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(0, &one);
        sched_setaffinity(0, sizeof one, &one);
        sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    }
    if (!tide_latch_take(&h->latch))
        return NULL;
    int64_t from = clock_ns(CLOCK_MONOTONIC), used = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_store(&h->has_it, true);
    while (h->way == SLOWLY && clock_ns(CLOCK_THREAD_CPUTIME_ID) - used < 1000000)
        ;
    while (h->way == ELSEWHERE && !atomic_load(&h->is_over))
        ;
    if (h->way == ASLEEP)
        sem_wait(&h->let_go);
    h->held_ns = clock_ns(CLOCK_MONOTONIC) - from;
    if (h->way != ENDED)
        tide_latch_release(&h->latch);
    return NULL;
}

static void *hog(void *argument)
{
    struct holder *h = argument;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    while (!atomic_load(&h->is_over))
        ;
    return NULL;
}

static pthread_t start(void *(*run)(void *), struct holder *h)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, h), 0);
    return thread;
}

static void wait_until(atomic_bool *flag)
{
    while (!atomic_load(flag))
        sched_yield();
}

/* 1 ms of work that others let it have in small pieces: whoever waits gets the latch, however late. */
static void a_holder_that_gets_no_processor_is_waited_for(void **state)
{
    (void)state;
    int64_t longest = 0;
    for (int round = 0; round < 50 && longest < 200000000; round++) {
        struct holder h = {.way = SLOWLY};
        pthread_t holder = start(hold, &h);
        wait_until(&h.has_it);
        pthread_t hogs[] = {start(hog, &h), start(hog, &h)};
        assert_true(tide_latch_take(&h.latch));
        tide_latch_release(&h.latch);
        atomic_store(&h.is_over, true);
        pthread_join(holder, NULL);
        for (int i = 0; i < 2; i++)
            pthread_join(hogs[i], NULL);
        longest = h.held_ns > longest ? h.held_ns : longest;
    }
    if (longest < 200000000)
        skip(); /* this kernel never lets one wait */
}

/* It jumped away with the latch, and sleeps, computes, or is no more. */
static void a_holder_that_is_not_at_it_is_given_up_once(void **state)
{
    (void)state;
    for (enum way way = ASLEEP; way <= ENDED; way++) {
        struct holder h = {.way = way};
        sem_init(&h.let_go, 0, 0);
        pthread_t holder = start(hold, &h);
        wait_until(&h.has_it);
        if (way == ENDED)
            pthread_join(holder, NULL);
        assert_false(tide_latch_take(&h.latch));
        assert_int_equal(h.latch, TIDE_LATCH_ABANDONED);
        for (int i = 0; i < 1000000; i++) /* at once now: this would take hours otherwise */
            assert_false(tide_latch_take(&h.latch));
        atomic_store(&h.is_over, true);
        sem_post(&h.let_go);
        if (way == ENDED)
            tide_latch_release(&h.latch);
        else
            pthread_join(holder, NULL);
        assert_true(tide_latch_take(&h.latch));
        sem_destroy(&h.let_go);
    }
}

/* The thread itself jumped away with it. */
static void a_thread_does_not_wait_for_itself(void **state)
{
    (void)state;
    tide_latch latch = TIDE_LATCH_FREE;
    assert_true(tide_latch_take(&latch));
    assert_false(tide_latch_take(&latch));
}

static void a_forked_child_is_another_thread(void **state)
{
    (void)state;
    unsigned mine = tide_latch_me()->thread;
    assert_int_equal(tide_latch_init(), 0);
    assert_true(tide_latch_me()->first);
    pid_t child = fork();
    if (!child)
        _exit(tide_latch_me()->thread != (unsigned)getpid() || !tide_latch_me()->first);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(tide_latch_me()->thread, mine);
}

/* ---- the hook's own memory */

static void only_pages_that_were_written_count_as_the_hooks(void **state)
{
    (void)state;
    uint64_t before = tide_wiped_resident();
    volatile char *pages = tide_wiped_map(64 * 4096);
    assert_non_null(pages);
    assert_int_equal(tide_wiped_resident(), before);
    for (int i = 0; i < 40; i++)
        assert_int_equal(pages[i * 4096], 0);
    assert_int_equal(tide_wiped_resident(), before);
    for (int i = 30; i < 50; i++)
        pages[i * 4096] = 1;
    if (tide_wiped_resident() == 0)
        skip(); /* this kernel does not say */
    assert_int_equal(tide_wiped_resident(), before + UINT64_C(20) * 4096);
    tide_wiped_unmap((void *)pages, 64 * 4096);
    assert_int_equal(tide_wiped_resident(), before);
}

/* ---- mappings */

enum { PAGES = 512 };
static uint32_t page_site[PAGES]; /* site + 1 of each page, 0: none */
static int64_t live_bytes[8], live_pieces[8];

static void on_change(void *context, struct tide_range gone, int64_t bytes, int64_t pieces)
{
    (void)context;
    live_bytes[gone.site] += bytes;
    live_pieces[gone.site] += pieces;
}

static void cut(uintptr_t from, uintptr_t to)
{
    assert_int_equal(tide_ranges_cut(TIDE_RANGES_MAPPED, from * 4096, to * 4096, on_change, NULL), 0);
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
            assert_int_equal(
                tide_ranges_add(TIDE_RANGES_MAPPED,
                                (struct tide_range){.start = from * 4096, .end = to * 4096, .site = site},
                                false),
                0);
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
    assert_false(tide_ranges_any(TIDE_RANGES_MAPPED));
    for (int i = 0; i < 8; i++)
        assert_int_equal(live_pieces[i], 0);
}

static void a_full_list_of_mappings_refuses(void **state)
{
    (void)state;
    live_bytes[0] = live_pieces[0] = 0;
    for (uintptr_t i = 0; i < TIDE_RANGES_MOST; i++)
        assert_int_equal(
            tide_ranges_add(TIDE_RANGES_MAPPED,
                            (struct tide_range){.start = i * 16384, .end = i * 16384 + 12288, .site = 0},
                            false),
            0);
    uintptr_t more = (uintptr_t)TIDE_RANGES_MOST * 16384;
    assert_int_equal(tide_ranges_add(TIDE_RANGES_MAPPED,
                                     (struct tide_range){.start = more, .end = more + 4096, .site = 0},
                                     false),
                     -1);
    /* A cut in the middle needs one more place, which is not there: the rest is told as lost. */
    assert_int_equal(tide_ranges_cut(TIDE_RANGES_MAPPED, 4096, 8192, on_change, NULL), 0);
    assert_int_equal(live_bytes[0], -8192);
    assert_int_equal(tide_ranges_cut(TIDE_RANGES_MAPPED, 0, UINTPTR_MAX, on_change, NULL), 0);
    assert_int_equal(live_bytes[0], -(int64_t)TIDE_RANGES_MOST * 12288);
    assert_int_equal(live_pieces[0], -(int64_t)TIDE_RANGES_MOST);
    assert_false(tide_ranges_any(TIDE_RANGES_MAPPED));
}

static void a_range_is_found_by_any_of_its_addresses(void **state)
{
    (void)state;
    struct tide_range found;
    assert_int_equal(tide_ranges_add(TIDE_RANGES_CHUNKS,
                                     (struct tide_range){.start = 4096, .end = 12288, .site = 3}, false),
                     0);
    assert_int_equal(tide_ranges_add(TIDE_RANGES_CHUNKS,
                                     (struct tide_range){.start = 20480, .end = 24576, .site = 4}, false),
                     0);
    assert_true(tide_ranges_find(TIDE_RANGES_CHUNKS, 12287, 12288, &found) && found.site == 3);
    assert_false(tide_ranges_find(TIDE_RANGES_CHUNKS, 12288, 20480, &found));
    assert_true(tide_ranges_find(TIDE_RANGES_CHUNKS, 12288, 20481, &found) && found.site == 4);
    assert_false(tide_ranges_find(TIDE_RANGES_MAPPED, 4096, 12288, &found));
    assert_int_equal(tide_ranges_cut(TIDE_RANGES_CHUNKS, 0, UINTPTR_MAX, on_change, NULL), 0);
}

static void device_memory_is_known_until_it_goes(void **state)
{
    (void)state;
    const uintptr_t unit = UINT64_C(1) << 21;
    struct tide_range found, whole = {.start = 5 * unit, .end = 8 * unit, .site = 3};
    struct tide_range small = {.start = 9 * unit + 512, .end = 10 * unit, .site = 4};
    assert_int_equal(tide_ranges_add(TIDE_RANGES_DEVICE, whole, false), 0);
    assert_int_equal(tide_ranges_add(TIDE_RANGES_DEVICE, small, false), 0);
    assert_true(tide_ranges_find(TIDE_RANGES_DEVICE, 7 * unit - 1, 7 * unit, &found) && found.site == 3);
    assert_true(tide_ranges_find(TIDE_RANGES_DEVICE, 9 * unit + 512, 9 * unit + 513, &found) &&
                found.site == 4);
    assert_false(tide_ranges_find(TIDE_RANGES_DEVICE, 9 * unit, 9 * unit + 512, &found));
    assert_int_equal(tide_ranges_cut(TIDE_RANGES_DEVICE, 6 * unit, 6 * unit + 4096, NULL, NULL), 0);
    assert_false(tide_ranges_find(TIDE_RANGES_DEVICE, 6 * unit, 6 * unit + 4096, &found));
    assert_int_equal(tide_ranges_cut(TIDE_RANGES_DEVICE, 0, UINTPTR_MAX, NULL, NULL), 0);
    assert_false(tide_ranges_any(TIDE_RANGES_DEVICE));
}

static void what_continues_a_range_of_its_site_joins_it(void **state)
{
    (void)state;
    struct tide_range found;
    assert_int_equal(
        tide_ranges_add(TIDE_RANGES_MAPPED, (struct tide_range){.start = 4096, .end = 8192, .site = 1}, true),
        0);
    assert_int_equal(tide_ranges_add(TIDE_RANGES_MAPPED,
                                     (struct tide_range){.start = 8192, .end = 12288, .site = 1}, true),
                     1);
    assert_int_equal(tide_ranges_add(TIDE_RANGES_MAPPED,
                                     (struct tide_range){.start = 12288, .end = 16384, .site = 2}, true),
                     0);
    assert_true(tide_ranges_find(TIDE_RANGES_MAPPED, 9000, 9001, &found));
    assert_true(found.start == 4096 && found.end == 12288);
    assert_int_equal(tide_ranges_cut(TIDE_RANGES_MAPPED, 0, UINTPTR_MAX, on_change, NULL), 0);
}

static void a_range_is_taken_by_its_beginning(void **state)
{
    (void)state;
    struct tide_range found;
    assert_int_equal(tide_ranges_take(TIDE_RANGES_CHUNKS, 4096, 4097, &found), 0);
    assert_int_equal(tide_ranges_add(TIDE_RANGES_CHUNKS,
                                     (struct tide_range){.start = 4096, .end = 12288, .site = 3}, false),
                     0);
    assert_int_equal(tide_ranges_take(TIDE_RANGES_CHUNKS, 8192, 12288, &found), 0);
    assert_int_equal(tide_ranges_take(TIDE_RANGES_CHUNKS, 0, 4096, &found), 0);
    assert_int_equal(tide_ranges_take(TIDE_RANGES_CHUNKS, 0, 4097, &found), 1);
    assert_true(found.end == 12288 && found.site == 3);
    assert_false(tide_ranges_any(TIDE_RANGES_CHUNKS));
}

static void leave(void *context, struct tide_range gone, int64_t bytes, int64_t pieces)
{
    (void)context;
    (void)gone;
    (void)bytes;
    (void)pieces;
    pthread_exit(NULL);
}

static void *leave_under_the_latch(void *argument)
{
    tide_ranges_cut(TIDE_RANGES_CHUNKS, 4096, 8192, leave, NULL);
    return argument;
}

/* In a process of its own: the latch is never free again. */
static void a_free_that_finds_the_latch_given_up_is_counted(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        static struct tide_heap_head table;
        pthread_t thread;
        tide_ranges_add(TIDE_RANGES_CHUNKS, (struct tide_range){.start = 4096, .end = 12288, .site = 3},
                        false);
        if (pthread_create(&thread, NULL, leave_under_the_latch, NULL) || pthread_join(thread, NULL))
            _exit(2);
        tide_blocks_forget(&table, (const void *)8192);
        _exit(atomic_load(&table.lost_frees) != 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
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
        long seeds = is_slow() ? 50 : 400, blocks = (long)(8 * interval / (double)sizes[s]) + 1;
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
        cmocka_unit_test(stretches_of_a_pool_are_what_a_plain_array_would_be),
        cmocka_unit_test(a_stretch_that_makes_no_sense_is_empty),
        cmocka_unit_test(threads_share_the_map),
        cmocka_unit_test(a_holder_that_gets_no_processor_is_waited_for),
        cmocka_unit_test(a_holder_that_is_not_at_it_is_given_up_once),
        cmocka_unit_test(a_thread_does_not_wait_for_itself),
        cmocka_unit_test(a_forked_child_is_another_thread),
        cmocka_unit_test(only_pages_that_were_written_count_as_the_hooks),
        cmocka_unit_test(mappings_are_what_an_array_of_pages_would_be),
        cmocka_unit_test(a_full_list_of_mappings_refuses),
        cmocka_unit_test(a_range_is_found_by_any_of_its_addresses),
        cmocka_unit_test(device_memory_is_known_until_it_goes),
        cmocka_unit_test(what_continues_a_range_of_its_site_joins_it),
        cmocka_unit_test(a_range_is_taken_by_its_beginning),
        cmocka_unit_test(a_free_that_finds_the_latch_given_up_is_counted),
        cmocka_unit_test(logarithm_and_probability_are_accurate),
        cmocka_unit_test(gaps_between_samples_are_exponential),
        cmocka_unit_test(what_is_counted_is_unbiased_for_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
