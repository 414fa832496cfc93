/*
 * An update in pieces, in whatever order they are asked for, against the same update at once: every number is
 * updated, and once.
 */
#include "rt/cpu/due.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/tile_products.h"
#include "rt/dtype.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 6, PARTS = 4, ROUNDS = 3, PIECE = 2048 };

static const struct shape {
    int64_t rows, columns;
    bool by_rows, decays;
} shapes[PARAMETERS] = {
    {1, 5, false, false},    {40, 600, false, true}, {1, 2048, false, true},
    {1, 2049, false, false}, {301, 97, true, true},  {7, 3000, true, false},
};

/* Weights, both moments and gradients of all, one after another, twice: one copy is updated in pieces. */
struct trial {
    float *pieces, *at_once;
    int64_t count; /* of weights */
    struct tide_due *due;
};

static int64_t start_of(int parameter)
{
    int64_t start = 0;
    for (int i = 0; i < parameter; i++)
        start += (shapes[i].rows * shapes[i].columns + 15) / 16 * 16;
    return start;
}

static struct tide_optimizer_step how_of(int round)
{
    return (struct tide_optimizer_step){
        .rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .scale = 0.75F, .step = round + 1};
}

static struct trial new_trial(void)
{
    struct tide_err err;
    struct trial t = {.count = start_of(PARAMETERS)};
    size_t bytes = (size_t)(PARTS * t.count) * sizeof(float);
    t.pieces = aligned_alloc(TIDE_ALIGN, tide_aligned(bytes));
    t.at_once = aligned_alloc(TIDE_ALIGN, tide_aligned(bytes));
    assert_non_null(t.pieces);
    assert_non_null(t.at_once);
    unsigned seed = 5;
    for (int64_t i = 0; i < PARTS * t.count; i++) {
        seed = seed * 1664525U + 1013904223U;
        t.at_once[i] = t.pieces[i] = (float)(seed >> 8) / (1 << 24);
    }
    assert_int_equal(tide_due_new(PARAMETERS, t.count, &t.due, &err), 0);
    for (int i = 0; i < PARAMETERS; i++)
        assert_int_equal(tide_due_add(t.due, t.pieces + start_of(i), shapes[i].rows, shapes[i].columns,
                                      shapes[i].by_rows, shapes[i].decays, &err),
                         i);
    return t;
}

static void free_trial(struct trial *t)
{
    tide_due_free(t->due);
    free(t->pieces);
    free(t->at_once);
}

/* From the share of whatever thread has something left. */
static bool take(const struct trial *t, struct tide_piece *ret_piece)
{
    for (int thread = tide_threads() - 1; thread >= 0; thread--)
        if (tide_due_take(t->due, thread, PIECE, ret_piece))
            return true;
    return false;
}

static void begin(struct trial *t, int round)
{
    struct tide_optimizer_step how = how_of(round);
    tide_due_begin(t->due, &how, 0.5F);
    for (int i = 0; i < PARAMETERS; i++) {
        float *at = t->at_once + start_of(i);
        how.decay = shapes[i].decays ? 0.5F : 0;
        struct tide_factors factors = tide_optimizer_factors(&how);
        struct tide_trained all = {.rows = 1,
                                   .columns = shapes[i].rows * shapes[i].columns,
                                   .weight = at,
                                   .parts = {at + t->count, at + 2 * t->count},
                                   .gradient = at + 3 * t->count};
        tide_optimizer_update(&tide_optimizer_adamw, &all, &factors);
    }
}

static void parameter_is_done(const struct trial *t, int i)
{
    for (int part = 0; part < PARTS; part++)
        assert_memory_equal(t->pieces + part * t->count + start_of(i),
                            t->at_once + part * t->count + start_of(i),
                            (size_t)(shapes[i].rows * shapes[i].columns) * sizeof(float));
}

static void all_is_done(const struct trial *t)
{
    struct tide_piece piece;
    assert_false(take(t, &piece));
    for (int i = 0; i < PARAMETERS; i++)
        parameter_is_done(t, i);
}

static void nothing_is_due_before_it_begins(void **state)
{
    (void)state;
    struct trial t = new_trial();
    struct tide_piece piece;
    assert_false(tide_due_take(NULL, 0, PIECE, &piece));
    tide_due_all(t.due);
    all_is_done(&t);
    free_trial(&t);
}

static void pieces_make_up_the_whole(void **state)
{
    (void)state;
    struct trial t = new_trial();
    for (int round = 0; round < ROUNDS; round++) {
        struct tide_piece piece;
        begin(&t, round);
        while (take(&t, &piece)) {
            struct tide_cache_lines lines = tide_piece_cache_lines(&piece);
            assert_true(lines.count > 0 && lines.count == PARTS * lines.per_row);
            tide_piece_do(&piece);
        }
        all_is_done(&t);
    }
    free_trial(&t);
}

/* So many pieces, then each of the ways to ask for more. */
static void what_is_needed_sooner_is_done_at_once(void **state)
{
    (void)state;
    const int32_t rows[] = {300, 0, 17, 300, 18, 299, 17};
    struct trial t = new_trial();
    int round = 0;
    for (int taken = 0; taken < 40; taken++) {
        struct tide_piece piece;
        begin(&t, round++);
        for (int i = 0; i < taken && take(&t, &piece); i++)
            tide_piece_do(&piece);
        tide_due_rows(t.due, 4, rows, sizeof rows / sizeof *rows);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int part = 0; part < PARTS; part++) {
                int64_t at = part * t.count + start_of(4) + rows[i] * shapes[4].columns;
                assert_memory_equal(t.pieces + at, t.at_once + at, (size_t)shapes[4].columns * sizeof(float));
            }
        tide_due_until(t.due, taken % PARAMETERS);
        for (int i = 0; i <= taken % PARAMETERS; i++)
            parameter_is_done(&t, i);
        tide_due_all(t.due);
        all_is_done(&t);
    }
    free_trial(&t);
}

/* A product that does some of an update meanwhile is the same product. */
static void products_do_some_of_it(void **state)
{
    (void)state;
    enum { M = 128, N = 192, K = 160 };
    const struct tide_tile_kind *kind = tide_tile_kind(TIDE_F32);
    static _Alignas(64) float a[M * K], b[K * N], c[2][M * N];
    struct tide_product p = tide_product(M, N, K, false, false, TIDE_F32, TIDE_F32);
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 37) - 18;
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % 41) - 20;
    for (int threads = 1; threads <= 3; threads++) {
        tide_threads_set(threads);
        struct trial t = new_trial();
        size_t bytes = tide_aligned(tide_tiles_scratch(kind, &p));
        void *scratch = aligned_alloc(TIDE_ALIGN, bytes);
        assert_non_null(scratch);
        memset(scratch, 0, bytes);
        begin(&t, 0);
        tide_tiles_multiply(kind, &p, &(struct tide_operands){a, b, NULL, c[0], NULL}, scratch, NULL);
        tide_tiles_multiply(kind, &p, &(struct tide_operands){a, b, NULL, c[1], NULL}, scratch, t.due);
        assert_memory_equal(c[0], c[1], sizeof c[0]);
        if (threads == 1) /* more may be done by others before it has a tile to do */
            parameter_is_done(&t, 0);
        tide_due_all(t.due);
        all_is_done(&t);
        free(scratch);
        free_trial(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_due_before_it_begins),
        cmocka_unit_test(pieces_make_up_the_whole),
        cmocka_unit_test(what_is_needed_sooner_is_done_at_once),
        cmocka_unit_test(products_do_some_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
