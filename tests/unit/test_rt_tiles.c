/*
 * Products in tiles against the same sums in f64, at every edge a tile has, and the same bits however a
 * product is shared out, in every kind of tile that this processor has.
 */
#include "convert_rows.h"
#include "rt/cpu/few.h"
#include "rt/cpu/processor.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/tile_products.h"
#include "sanitized.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 5 }; /* numbers between the rows of c, that nobody may touch */

struct trial {
    const struct tide_tile_kind *kind;
    struct tide_product product;
    bool adds, has_bias;
    void *a, *b, *c;
    float *bias;
};

static void *numbers(int64_t count, enum tide_dtype dtype, unsigned seed)
{
    void *made = aligned_alloc(TIDE_ALIGN, tide_aligned((size_t)count * tide_dtype_bytes(dtype)));
    assert_non_null(made);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        tide_number_set(made, dtype, i, (double)(int)(seed >> 8) / (1 << 23) - 1);
    }
    return made;
}

static struct trial trial_of(const struct tide_tile_kind *kind, struct tide_product p)
{
    p.c_stride = p.n + GAP;
    return (struct trial){.kind = kind,
                          .product = p,
                          .a = numbers(p.m * p.k, p.a_from, 1),
                          .b = numbers(p.k * p.n, p.b_from, 2),
                          .c = numbers(p.m * p.c_stride, p.to, 3),
                          .bias = numbers(p.n, TIDE_F32, 4)};
}

static void trial_release(struct trial *t)
{
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->bias);
}

static size_t c_bytes(const struct tide_product *p)
{
    return (size_t)(p->m * p->c_stride) * tide_dtype_bytes(p->to);
}

/* The result, in a copy of c; scratch holds what is not a number. is_few: not in tiles. */
static void *multiplied_so(const struct trial *t, bool is_few)
{
    size_t size = c_bytes(&t->product),
           bytes = tide_aligned(is_few ? tide_few_scratch(t->kind, &t->product)
                                       : tide_tiles_scratch(t->kind, &t->product));
    struct tide_operands operands = {t->a, t->b, t->has_bias ? t->bias : NULL,
                                     aligned_alloc(TIDE_ALIGN, tide_aligned(size)), NULL};
    void *scratch = aligned_alloc(TIDE_ALIGN, bytes);
    assert_non_null(scratch);
    assert_non_null(operands.c);
    memset(scratch, 0xff, bytes);
    memcpy(operands.c, t->c, size);
    operands.added = t->adds ? operands.c : NULL;
    if (is_few)
        tide_few_multiply(t->kind, &t->product, &operands, scratch);
    else
        tide_tiles_multiply(t->kind, &t->product, &operands, scratch);
    free(scratch);
    return operands.c;
}

static void *multiplied(const struct trial *t)
{
    return multiplied_so(t, false);
}

static double factor(const void *from, enum tide_dtype in_memory, enum tide_dtype as, int64_t at)
{
    double number = tide_number(from, in_memory, at);
    return as == TIDE_BF16 ? tide_from_bf16(tide_to_bf16((float)number)) : number;
}

/* What number (i, j) should be, and the sum of what was added up for it. */
static double expected(const struct trial *t, int64_t i, int64_t j, double *ret_size)
{
    const struct tide_product *p = &t->product;
    double sum = t->has_bias ? t->bias[j] : 0, size = fabs(sum);
    if (t->adds)
        sum += tide_number(t->c, p->to, i * p->c_stride + j);
    for (int64_t k = 0; k < p->k; k++) {
        double by = factor(t->a, p->a_from, t->kind->cells, p->a_transposed ? k * p->m + i : i * p->k + k) *
                    factor(t->b, p->b_from, t->kind->cells, p->b_transposed ? j * p->k + k : k * p->n + j);
        sum += by;
        size += fabs(by);
    }
    *ret_size = size;
    return sum;
}

static void compare(const struct trial *t, const void *c)
{
    const struct tide_product *p = &t->product;
    double unit = p->to == TIDE_BF16 ? 0x1p-8 : 0x1p-20; /* of sums of numbers up to 1 */
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->c_stride; j++) {
            double found = tide_number(c, p->to, i * p->c_stride + j), size = 0;
            if (j >= p->n) {
                assert_true(found == tide_number(t->c, p->to, i * p->c_stride + j));
                continue;
            }
            double should = expected(t, i, j, &size);
            double allowed = p->to == TIDE_BF16 ? unit * fabs(should) + 0x1p-20 * size : unit * (size + 1);
            if (!(fabs(found - should) <= allowed))
                fail_msg("%s (%d x %d x %d%s%s, %s from %s and %s to %s%s%s): %d, %d is %.9g instead of %.9g",
                         t->kind->name, (int)p->m, (int)p->n, (int)p->k,
                         p->a_transposed ? ", a lies the other way" : "",
                         p->b_transposed ? ", b lies the other way" : "", p->from ? "bf16" : "f32",
                         p->a_from ? "bf16" : "f32", p->b_from ? "bf16" : "f32", p->to ? "bf16" : "f32",
                         t->adds ? ", adds" : "", t->has_bias ? ", bias" : "", (int)i, (int)j, found, should);
        }
}

/* How a product may differ beside its size: each bit of `variant` is one way. */
enum { VARIANTS = 1 << 7 };

/* false: that kind has no such product, or it would be the same as another. */
static bool product_of(const struct tide_tile_kind *kind, int64_t m, int64_t n, int64_t k, int variant,
                       struct tide_product *ret)
{
    enum tide_dtype from = variant & 16 ? TIDE_BF16 : TIDE_F32, to = variant & 32 ? TIDE_BF16 : TIDE_F32;
    if (from == TIDE_F32 && (to == TIDE_BF16 || variant & 64 || kind->cells == TIDE_BF16))
        return false;
    *ret = tide_product(m, n, k, variant & 1, variant & 2, from, to);
    if (variant & 64)
        ret->b_from = TIDE_F32;
    if (variant & 64 && variant & 1)
        ret->a_from = TIDE_F32;
    return true;
}

static struct trial trial_so(const struct tide_tile_kind *kind, struct tide_product p, int variant)
{
    struct trial t = trial_of(kind, p);
    t.adds = variant & 4;
    t.has_bias = variant & 8;
    return t;
}

/* Those that this processor has. */
static int kinds_here(const struct tide_tile_kind *kinds[])
{
    int count = 0;
    kinds[count++] = &tide_tile_plain;
#if defined(__x86_64__)
    if (tide_isa() >= TIDE_ISA_AVX2)
        kinds[count++] = &tide_tile_avx2;
    if (tide_isa() >= TIDE_ISA_AVX512)
        kinds[count++] = &tide_tile_avx512;
    if (tide_processor_multiplies_bf16())
        kinds[count++] = &tide_tile_avx512_bf16;
    if (tide_isa() >= TIDE_ISA_AMX)
        kinds[count++] = &tide_tile_amx;
#endif
    return count;
}
enum { KINDS = 5 };

static void for_each_kind(void (*test)(const struct tide_tile_kind *kind))
{
    const struct tide_tile_kind *kinds[KINDS];
    int before = tide_threads(), count = kinds_here(kinds);
    for (int i = 0; i < count; i++)
        test(kinds[i]);
    tide_threads_set(before);
}

static const int64_t sizes[][3] = {
    {1, 1, 1},    {8, 48, 16},  {16, 48, 1},  {48, 1024, 3}, {17, 49, 2},  {7, 47, 15},  {24, 96, 33},
    {33, 15, 17}, {100, 1, 31}, {1, 100, 32}, {24, 145, 18}, {31, 64, 34}, {3, 17, 770}, {2, 17, 1537},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void edges_of(const struct tide_tile_kind *kind)
{
    int step = is_slow() ? 6 : 3; /* each at two or three sizes, or at four or five */
    for (int i = 0; i < SIZES; i++)
        for (int variant = i % step; variant < VARIANTS; variant += step) {
            struct tide_product p;
            if (!product_of(kind, sizes[i][0], sizes[i][1], sizes[i][2], variant, &p))
                continue;
            struct trial t = trial_so(kind, p, variant);
            void *c = multiplied(&t);
            compare(&t, c);
            free(c);
            trial_release(&t);
        }
}

static void each_edge_of_a_tile_is_right(void **state)
{
    (void)state;
    for_each_kind(edges_of);
}

/* Rows of c that are whole cache lines may be written in another way. */
static void whole_lines_of(const struct tide_tile_kind *kind)
{
    enum { M = 70, N = 96, WHOLE = N + 32 };
    for (int variant = 0; variant < VARIANTS; variant += is_slow() ? 6 : 1) {
        struct tide_product p;
        if (!product_of(kind, M, N, variant % 2 ? 40 : 900, variant, &p))
            continue;
        struct trial t = trial_so(kind, p, variant), lines = t;
        size_t number = tide_dtype_bytes(p.to), row = N * number, had = (size_t)t.product.c_stride * number;
        lines.product.c_stride = WHOLE;
        lines.c = numbers(M * WHOLE, p.to, 5);
        for (size_t i = 0; i < M; i++)
            memcpy((char *)lines.c + i * WHOLE * number, (const char *)t.c + i * had, row);
        char *expected = multiplied(&t), *c = multiplied(&lines);
        for (size_t i = 0; i < M; i++) {
            size_t at = i * WHOLE * number;
            assert_memory_equal(c + at, expected + i * had, row);
            assert_memory_equal(c + at + row, (const char *)lines.c + at + row, WHOLE * number - row);
        }
        free(expected);
        free(c);
        free(lines.c);
        trial_release(&t);
    }
}

static void whole_cache_lines_have_the_bits_of_others(void **state)
{
    (void)state;
    for_each_kind(whole_lines_of);
}

/* More threads than processors, so that some are done long before others begin, and take from them. Small
 * products have few threads whatever is there. */
static void bits_of(const struct tide_tile_kind *kind)
{
    enum { M = 200, N = 20 * 48 + 5 };
    int times = is_slow() ? 1 : is_long() ? 4 : 2;
    for (int variant = 0; variant < VARIANTS; variant += is_slow() ? 10 : 1) {
        struct tide_product p;
        bool is_deep = variant == 20 || (variant % 16 == 4 && is_long());
        if (variant & 8 || !product_of(kind, M, N, !is_deep ? 90 : is_slow() ? 800 : 1600, variant, &p))
            continue;
        struct trial t = trial_so(kind, p, variant);
        tide_threads_set(1);
        void *alone = multiplied(&t);
        for (int i = 0; i < times; i++) {
            tide_threads_set(2 + 5 * i % 7);
            void *shared = multiplied(&t);
            assert_memory_equal(shared, alone, c_bytes(&t.product));
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

/* Rows of a larger product are the product of those rows. */
static void parts_of(const struct tide_tile_kind *kind)
{
    enum { M = 160, N = 100, K = 800, FROM = 48, ROWS = 16 };
    for (int dtype = kind->cells; dtype <= TIDE_BF16; dtype++) {
        struct tide_product p = tide_product(M, N, K, false, false, (enum tide_dtype)dtype, TIDE_F32);
        struct trial whole = trial_of(kind, p), part = whole;
        size_t row = (size_t)whole.product.c_stride * sizeof(float);
        part.product.m = ROWS;
        part.a = (char *)whole.a + (size_t)(FROM * K) * tide_dtype_bytes((enum tide_dtype)dtype);
        void *all = multiplied(&whole), *some = multiplied(&part);
        for (int i = 0; i < ROWS; i++)
            assert_memory_equal((char *)some + (size_t)i * row, (char *)all + (size_t)(FROM + i) * row,
                                N * sizeof(float));
        free(all);
        free(some);
        trial_release(&whole);
    }
}

static void a_part_has_the_bits_of_the_whole(void **state)
{
    (void)state;
    for_each_kind(parts_of);
}

static void no_numbers_of(const struct tide_tile_kind *kind)
{
    enum { M = 20, N = 60, K = 40 };
    struct trial t = trial_of(kind, tide_product(M, N, K, false, false, kind->cells, TIDE_F32));
    tide_number_set(t.a, kind->cells, 9 * K + 3, NAN);
    tide_number_set(t.b, kind->cells, 5 * N + 50, INFINITY);
    float *c = multiplied(&t);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            assert_int_equal(isfinite(c[i * t.product.c_stride + j]), i != 9 && j != 50);
    free(c);
    trial_release(&t);
}

static void what_is_no_number_stays_where_it_is(void **state)
{
    (void)state;
    for_each_kind(no_numbers_of);
}

/* A matrix of int8 by blocks, and the same numbers in f32. */
struct stored {
    void *whole, *wide;
};

static struct stored stored_of(int64_t rows, int64_t columns, unsigned seed)
{
    float *made = numbers(rows * columns, TIDE_F32, seed);
    struct stored s = {malloc((size_t)rows * tide_row_bytes(TIDE_I8, columns)), made}; /* not a byte more */
    assert_non_null(s.whole);
    convert_rows(s.whole, TIDE_I8, made, TIDE_F32, rows, columns);
    convert_rows(made, TIDE_F32, s.whole, TIDE_I8, rows, columns);
    return s;
}

static void same_bits(const struct trial *wide, const struct trial *stored)
{
    size_t bytes = c_bytes(&wide->product);
    void *should = multiplied(wide), *c = multiplied(stored);
    if (memcmp(c, should, bytes) != 0)
        fail_msg("%s: %d x %d x %d%s%s from int8 differs", wide->kind->name, (int)wide->product.m,
                 (int)wide->product.n, (int)wide->product.k,
                 wide->product.a_transposed ? ", a transposed" : "",
                 wide->product.b_transposed ? ", b transposed" : "");
    free(should);
    free(c);
}

/* The product of one size, with b, then a, in int8, in tiles and in plain C. */
static void stored_at(const struct tide_tile_kind *kind, const int64_t size[3], bool a_transposed,
                      bool b_transposed, enum tide_dtype from)
{
    struct tide_product p =
        tide_product(size[0], size[1], size[2], a_transposed, b_transposed, from, TIDE_F32);
    struct stored a = stored_of(a_transposed ? p.k : p.m, a_transposed ? p.m : p.k, 5),
                  b = stored_of(b_transposed ? p.n : p.k, b_transposed ? p.k : p.n, 6);
    tide_product_stored(&p, TIDE_F32, TIDE_F32);
    struct trial wide = trial_of(kind, p);
    wide.has_bias = true;
    struct trial kept = wide, other = wide;
    wide.a = other.a = a.wide;
    wide.b = b.wide;
    other.b = b.whole;
    tide_product_stored(&other.product, TIDE_F32, TIDE_I8);
    same_bits(&wide, &other);
    other.a = a.whole;
    other.b = b.wide;
    tide_product_stored(&other.product, TIDE_I8, TIDE_F32);
    same_bits(&wide, &other);
    free(a.whole), free(a.wide), free(b.whole), free(b.wide);
    trial_release(&kept);
}

static void stored_in(const struct tide_tile_kind *kind)
{
    static const int64_t larger[][3] = {{200, 773, 130}, {33, 130, 1601}, {16, 64, 64}, {65, 129, 63}};
    enum { LARGER = sizeof larger / sizeof *larger };
    for (int dtype = kind->cells; dtype <= TIDE_BF16; dtype++)
        for (int way = 0; way < 4; way++)
            for (int i = is_slow() ? way % 3 : 0; i < SIZES + LARGER; i += is_slow() ? 3 : 1) {
                tide_threads_set(1 + i % 3);
                stored_at(kind, i < SIZES ? sizes[i] : larger[i - SIZES], way & 1, way & 2,
                          (enum tide_dtype)dtype);
            }
}

static void int8_has_the_bits_of_the_same_numbers_in_f32(void **state)
{
    (void)state;
    for_each_kind(stored_in);
}

/* What is not a number in one block of int8 stays in what is made of that block. */
static void bad_blocks_of(const struct tide_tile_kind *kind)
{
    enum { M = 20, N = 200, K = 70 };
    for (int transposed = 0; transposed < 2; transposed++) {
        int64_t rows = transposed ? N : K, columns = transposed ? K : N;
        struct tide_product p = tide_product(M, N, K, false, transposed, kind->cells, TIDE_F32);
        struct trial t = trial_of(kind, p);
        float *made = numbers(rows * columns, TIDE_F32, 9);
        made[transposed ? 70 * K + 69 : 69 * N + 70] = INFINITY;
        free(t.b);
        t.b = malloc((size_t)rows * tide_row_bytes(TIDE_I8, columns));
        assert_non_null(t.b);
        tide_product_stored(&t.product, kind->cells, TIDE_I8);
        convert_rows(t.b, TIDE_I8, made, TIDE_F32, rows, columns);
        float *c = multiplied(&t);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++)
                assert_int_equal(isnan(c[i * t.product.c_stride + j]) != 0,
                                 transposed ? j == 70 : j / TIDE_BLOCK == 1);
        free(c);
        free(made);
        trial_release(&t);
    }
}

static void a_bad_block_of_int8_stays_where_it_is(void **state)
{
    (void)state;
    for_each_kind(bad_blocks_of);
}

/* ---- a few rows, which need no tiles */

enum { FEW_OF = 200, FEW_FROM = 48 };

/* Rows of a product have the same bits as the product of those rows. whole: of FEW_OF rows. */
static void few_are_part(const struct trial *whole, int64_t rows)
{
    const struct tide_product *p = &whole->product;
    int64_t size = (int64_t)tide_dtype_bytes(p->a_from), row = p->c_stride * (int64_t)tide_dtype_bytes(p->to);
    struct trial part = *whole;
    part.product.m = rows;
    part.a = (char *)whole->a + FEW_FROM * size * (p->a_transposed ? 1 : p->a_stride);
    part.c = (char *)whole->c + FEW_FROM * row;
    assert_true(tide_few_fits(part.kind, &part.product));
    char *all = multiplied(whole), *some = multiplied_so(&part, true);
    if (memcmp(all + FEW_FROM * row, some, (size_t)(rows * row)) != 0)
        fail_msg("%s: %d rows of %d x %d%s%s, %d stored as %d, to %d, differ from tiles",
                 p->from ? "bf16" : "f32", (int)rows, (int)p->n, (int)p->k,
                 p->a_transposed ? ", a transposed" : "", p->b_transposed ? ", b transposed" : "",
                 (int)p->from, (int)p->b_from, (int)p->to);
    free(all);
    free(some);
}

static struct trial few_trial(const struct tide_tile_kind *kind, const int64_t size[2], int way,
                              enum tide_dtype from, enum tide_dtype b_from)
{
    struct tide_product p = tide_product(FEW_OF, size[0], size[1], way & 1, way & 2, from,
                                         from == TIDE_BF16 && way & 1 ? TIDE_BF16 : TIDE_F32);
    struct trial t = trial_of(kind, p);
    t.has_bias = !(way & 2);
    t.adds = way & 1;
    struct stored b = stored_of(way & 2 ? p.n : p.k, way & 2 ? p.k : p.n, 11);
    free(t.b);
    t.b = b.whole;
    tide_product_stored(&t.product, from, b_from);
    if (b_from != TIDE_I8) {
        size_t count = (size_t)(p.n * p.k);
        free(b.whole);
        t.b = malloc(count * tide_dtype_bytes(b_from)); /* not a byte more */
        assert_non_null(t.b);
        tide_rows_convert_here(t.b, b_from, b.wide, TIDE_F32, (int64_t)count);
    }
    free(b.wide);
    return t;
}

static void few_rows_of(const struct tide_tile_kind *kind)
{
    static const int64_t shapes[][2] = {{1003, 261}, {768, 770}, {129, 1601}, {2400, 64}};
    static const enum tide_dtype types[] = {TIDE_F32, TIDE_BF16, TIDE_I8};
    static const int64_t rows[] = {1, 4, 5, 8, 9, 16};
    enum { SHAPES = sizeof shapes / sizeof *shapes, TYPES = 3, COUNTS = sizeof rows / sizeof *rows };
    for (int which = 0; which < SHAPES * TYPES * 4; which += is_slow() ? 13 : is_long() ? 1 : 5) {
        int way = which / SHAPES % 4;
        if (!(way & 2 ? kind->along : kind->across))
            continue;
        for (int from = kind->cells; from <= TIDE_BF16; from++) {
            struct trial t = few_trial(kind, shapes[which % SHAPES], way, (enum tide_dtype)from,
                                       types[which / SHAPES / 4]);
            for (int i = is_long() ? 0 : which % 3; i < COUNTS; i += is_long() ? 1 : 3) {
                tide_threads_set(1 + (i + which) % 4);
                few_are_part(&t, rows[i]);
            }
            trial_release(&t);
        }
    }
}

static void few_rows_have_the_bits_of_rows_in_tiles(void **state)
{
    (void)state;
    for_each_kind(few_rows_of);
}

/* Also where fewer threads work than the room was made for. */
static void few_rows_need_no_more_room_than_was_asked_for(void **state)
{
    const struct tide_tile_kind *kind = tide_tile_kind(TIDE_F32);
    const int64_t size[2] = {3000, 100};
    int before = tide_threads();
    (void)state;
    if (!kind->across)
        skip();
    tide_threads_set(5);
    tide_threads_use(2);
    struct trial t = few_trial(kind, size, 0, TIDE_F32, TIDE_F32);
    few_are_part(&t, 8);
    trial_release(&t);
    tide_threads_use(5);
    tide_threads_set(before);
}

static void only_few_rows_of_much_do_without_tiles(void **state)
{
    (void)state;
    struct tide_product p = tide_product(16, 768, 768, false, false, TIDE_F32, TIDE_F32);
    const struct tide_tile_kind *kind = tide_tile_kind(TIDE_F32);
    assert_int_equal(tide_few_fits(kind, &p), kind->across != NULL);
    p.m = 17;
    assert_false(tide_few_fits(kind, &p));
    p.m = 1;
    p.n = 64;
    assert_false(tide_few_fits(kind, &p));
    assert_false(tide_few_fits(&tide_tile_plain, &p));
}

/* A few rows are multiplied by AMX only where it need not pack b. */
static void bf16_is_multiplied_by_what_is_there(void **state)
{
    (void)state;
#if defined(__x86_64__)
    for (int isa = TIDE_ISA_PLAIN; isa <= TIDE_ISA_AMX; isa++)
        for (int which = 0; which < 8; which++) {
            bool is_fast = which & 1 && isa >= TIDE_ISA_AVX512, packs = which & 4;
            enum tide_dtype from = which & 2 ? TIDE_BF16 : TIDE_F32;
            const struct tide_tile_kind *kind = tide_tile_choose((enum tide_isa)isa, is_fast, from, packs);
            bool is_amx = isa == TIDE_ISA_AMX && from == TIDE_BF16 && packs;
            assert_int_equal(kind == &tide_tile_amx, is_amx);
            assert_int_equal(kind == &tide_tile_avx512_bf16, !is_amx && from == TIDE_BF16 && is_fast);
            assert_int_equal(kind->across != NULL, isa >= TIDE_ISA_AVX2 && !is_amx);
            assert_int_equal(kind->along != NULL, isa >= TIDE_ISA_AVX2);
        }
#endif
    assert_ptr_equal(tide_tile_kind_of_few(TIDE_BF16, true), tide_tile_kind(TIDE_BF16));
}

/* What a strip asks for lies in its operand, whatever its type and wherever it ends. */
static void nothing_beyond_an_operand_is_asked_for(void **state)
{
    enum { LINES = 50, NUMBERS = 77, LANES = 48, STEP = 32 };
    static const enum tide_dtype types[] = {TIDE_F32, TIDE_BF16, TIDE_I8};
    static const char data[LINES * NUMBERS * 4 * 2];
    (void)state;
    for (int which = 0; which < 12; which++) {
        bool along = which & 1;
        struct tide_operand o = {.data = data,
                                 .is_along = along,
                                 .lines = LINES,
                                 .numbers = NUMBERS,
                                 .from = types[which / 4],
                                 .to = which & 2 ? TIDE_BF16 : TIDE_F32};
        o.stride = (int64_t)tide_row_bytes(o.from, along ? NUMBERS : LINES);
        const char *end = data + o.stride * (along ? LINES : NUMBERS);
        int64_t asked = 0;
        for (int64_t line = 0; line < LINES; line += LANES)
            for (int64_t cell = 0; cell < NUMBERS; cell += STEP) {
                struct tide_strip strip = {line, LANES, cell, cell + STEP};
                struct tide_cache_lines lines = tide_pack_cache_lines(&o, strip);
                while (lines.count > 0) {
                    const char *at = tide_cache_lines_next(&lines);
                    assert_true(at >= data && at < end);
                    asked++;
                }
            }
        assert_true(asked * TIDE_CACHE_LINE >= (int64_t)(LINES * NUMBERS * tide_dtype_bytes(o.from)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_edge_of_a_tile_is_right),
        cmocka_unit_test(whole_cache_lines_have_the_bits_of_others),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_part_has_the_bits_of_the_whole),
        cmocka_unit_test(what_is_no_number_stays_where_it_is),
        cmocka_unit_test(int8_has_the_bits_of_the_same_numbers_in_f32),
        cmocka_unit_test(a_bad_block_of_int8_stays_where_it_is),
        cmocka_unit_test(nothing_beyond_an_operand_is_asked_for),
        cmocka_unit_test(few_rows_have_the_bits_of_rows_in_tiles),
        cmocka_unit_test(few_rows_need_no_more_room_than_was_asked_for),
        cmocka_unit_test(only_few_rows_of_much_do_without_tiles),
        cmocka_unit_test(bf16_is_multiplied_by_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
