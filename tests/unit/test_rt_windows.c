/*
 * Products of windows against the same sums in f64, at boards and channels that leave tiles of every sort
 * unfilled, and the same bits however they are shared out and whatever boards are beside, in every kind of
 * tile for windows that this processor has.
 */
#include "rt/cpu/processor.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/window_products.h"
#include "sanitized.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

struct trial {
    const struct tide_tile_kind *kind;
    struct tide_windows windows;
    int64_t rows;
    bool adds, has_bias;
    void *a, *b, *c;
    float *bias;
};

/* Not a byte more than asked for, so that the sanitizer sees one that is touched. */
static void *numbers(int64_t count, enum tide_dtype dtype, unsigned seed)
{
    void *made = NULL;
    assert_int_equal(posix_memalign(&made, TIDE_ALIGN, (size_t)count * tide_dtype_bytes(dtype)), 0);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        tide_number_set(made, dtype, i, (double)(int)(seed >> 8) / (1 << 23) - 1);
    }
    return made;
}

static int64_t c_rows(const struct trial *t)
{
    return t->windows.transposed ? TIDE_WINDOW * t->windows.channels : t->rows;
}

static size_t c_bytes(const struct trial *t)
{
    return (size_t)(c_rows(t) * t->windows.n) * tide_dtype_bytes(t->windows.to);
}

static struct trial trial_of(const struct tide_tile_kind *kind, const struct tide_windows *w, int variant)
{
    struct trial t = {.kind = kind,
                      .windows = *w,
                      .rows = w->boards * w->board.columns * w->board.rows,
                      .adds = variant & 2,
                      .has_bias = variant & 4};
    t.a = numbers(t.rows * w->channels, w->a_from, 1);
    t.b = numbers((w->transposed ? t.rows : TIDE_WINDOW * w->channels) * w->n, w->b_from, 2);
    t.c = numbers(c_rows(&t) * w->n, w->to, 3);
    t.bias = numbers(w->n, TIDE_F32, 4);
    return t;
}

static void trial_release(struct trial *t)
{
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->bias);
}

/* The result, in a copy of c; scratch holds what is not a number. */
static void *multiplied(const struct trial *t)
{
    size_t bytes = tide_windows_scratch(t->kind, &t->windows);
    struct tide_operands operands = {t->a, t->b, t->has_bias ? t->bias : NULL, malloc(c_bytes(t)), NULL};
    void *scratch = NULL;
    assert_non_null(operands.c);
    assert_int_equal(posix_memalign(&scratch, TIDE_ALIGN, bytes), 0);
    memset(scratch, 0xff, bytes);
    memcpy(operands.c, t->c, c_bytes(t));
    operands.added = t->adds ? operands.c : NULL;
    tide_windows_multiply(t->kind, &t->windows, &operands, scratch);
    free(scratch);
    return operands.c;
}

static double factor(const void *from, enum tide_dtype in_memory, enum tide_dtype as, int64_t at)
{
    double number = tide_number(from, in_memory, at);
    return as == TIDE_BF16 ? tide_from_bf16(tide_to_bf16((float)number)) : number;
}

/* A number of the windows. */
static double window_number(const struct trial *t, int64_t row, int64_t k)
{
    const struct tide_windows *w = &t->windows;
    int64_t near = tide_board_neighbour(&w->board, row, (int)(k / w->channels));
    return near < 0 ? 0 : tide_number(t->a, w->a_from, near * w->channels + k % w->channels);
}

static double expected(const struct trial *t, int64_t i, int64_t j, double *ret_size)
{
    const struct tide_windows *w = &t->windows;
    int64_t terms = w->transposed ? t->rows : TIDE_WINDOW * w->channels;
    double sum = (t->has_bias ? t->bias[j] : 0) + (t->adds ? tide_number(t->c, w->to, i * w->n + j) : 0),
           size = fabs(sum);
    for (int64_t k = 0; k < terms; k++) {
        double by = (w->transposed ? window_number(t, k, i) : window_number(t, i, k)) *
                    factor(t->b, w->b_from, t->kind->cells, k * w->n + j);
        sum += by;
        size += fabs(by);
    }
    *ret_size = size;
    return sum;
}

static void compare(const struct trial *t, const void *c)
{
    const struct tide_windows *w = &t->windows;
    for (int64_t i = 0; i < c_rows(t); i++)
        for (int64_t j = 0; j < w->n; j++) {
            double size = 0, should = expected(t, i, j, &size), found = tide_number(c, w->to, i * w->n + j),
                   allowed = (w->to == TIDE_BF16 ? 0x1p-8 * fabs(should) : 0) + 0x1p-20 * (size + 1);
            if (!(fabs(found - should) <= allowed))
                fail_msg("%s, %d boards of %d x %d, %d channels, n %d%s: %d, %d is %.9g instead of %.9g",
                         t->kind->name, (int)w->boards, (int)w->board.columns, (int)w->board.rows,
                         (int)w->channels, (int)w->n, w->transposed ? ", transposed" : "", (int)i, (int)j,
                         found, should);
        }
}

static void for_each_kind(void (*test)(const struct tide_tile_kind *kind))
{
    int before = tide_threads();
#if defined(__x86_64__)
    if (tide_isa() >= TIDE_ISA_AVX2)
        test(&tide_tile_avx2);
    if (tide_isa() >= TIDE_ISA_AVX512)
        test(&tide_tile_avx512);
    if (tide_processor_multiplies_bf16())
        test(&tide_tile_avx512_bf16);
#endif
    (void)test;
    tide_threads_set(before);
}

/* boards, columns, rows, channels, n */
static const int64_t sizes[][5] = {{1, 1, 1, 2, 1},  {1, 3, 3, 4, 17},  {3, 1, 5, 10, 24}, {2, 6, 1, 6, 33},
                                   {8, 4, 5, 2, 48}, {9, 3, 4, 8, 50},  {17, 2, 2, 18, 7}, {1, 15, 15, 4, 97},
                                   {5, 2, 7, 12, 8}, {10, 5, 4, 14, 40}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Each bit of `variant` is one way: transposed, adds, a bias, b in bf16, c in bf16. */
enum { VARIANTS = 1 << 5 };

static struct tide_windows windows_of(const struct tide_tile_kind *kind, const int64_t *size, int variant)
{
    return (struct tide_windows){.board = {size[1], size[2]},
                                 .boards = size[0],
                                 .channels = size[3],
                                 .n = size[4],
                                 .transposed = variant & 1,
                                 .a_from = kind->cells,
                                 .b_from = variant & 8 ? TIDE_BF16 : TIDE_F32,
                                 .to = variant & 16 ? TIDE_BF16 : TIDE_F32};
}

static void edges_of(const struct tide_tile_kind *kind)
{
    int tried = 0;
    for (int i = 0; i < SIZES; i++)
        for (int variant = is_slow() ? i % 3 : 0; variant < VARIANTS; variant += is_slow() ? 3 : 1) {
            struct tide_windows w = windows_of(kind, sizes[i], variant);
            if (!tide_windows_fit(kind, &w))
                continue;
            struct trial t = trial_of(kind, &w, variant);
            void *c = multiplied(&t);
            compare(&t, c);
            tried++;
            free(c);
            trial_release(&t);
        }
    assert_true(tried >= SIZES);
}

static void each_edge_of_a_board_is_right(void **state)
{
    (void)state;
    for_each_kind(edges_of);
}

static void bits_of(const struct tide_tile_kind *kind)
{
    static const int64_t size[5] = {21, 9, 7, 40, 100};
    for (int variant = 0; variant < 4; variant++) {
        struct tide_windows w = windows_of(kind, size, variant);
        if (!tide_windows_fit(kind, &w))
            continue;
        struct trial t = trial_of(kind, &w, variant);
        tide_threads_set(1);
        void *alone = multiplied(&t);
        for (int threads = 2; threads < 8; threads += 3) {
            tide_threads_set(threads);
            void *shared = multiplied(&t);
            assert_memory_equal(shared, alone, c_bytes(&t));
            free(shared);
        }
        free(alone);
        trial_release(&t);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for_each_kind(bits_of);
}

/* One board alone, two, or with seven others: the first ones' numbers are the same. */
static void boards_of(const struct tide_tile_kind *kind)
{
    static const int64_t size[5] = {11, 5, 6, 12, 50};
    struct tide_windows w = windows_of(kind, size, 4);
    struct trial all = trial_of(kind, &w, 4);
    void *together = multiplied(&all);
    for (int64_t boards = 1; boards < w.boards; boards++) {
        struct trial some = all;
        some.windows.boards = boards;
        some.rows = boards * w.board.columns * w.board.rows;
        void *alone = multiplied(&some);
        assert_memory_equal(alone, together, c_bytes(&some));
        free(alone);
    }
    free(together);
    trial_release(&all);
}

static void boards_beside_change_no_bit(void **state)
{
    (void)state;
    for_each_kind(boards_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_edge_of_a_board_is_right),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(boards_beside_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
