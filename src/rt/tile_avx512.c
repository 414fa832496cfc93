/*
 * tile_avx512.c - tiles of 8 x 48: 24 vectors of sums and three of b, of the 32 there are.
 */
#include "rt/tile_write.h"

#if defined(__x86_64__)

enum { ROWS = 8, VECTORS = 3, LANES = TIDE_LANES };

TIDE_INLINE TIDE_AVX512 void write_sums(const struct tide_tile *t, __m512 sums[ROWS][VECTORS],
                                        const int vectors, enum tide_dtype to)
{
#pragma GCC unroll 3
    for (int v = 0; v < vectors; v++) {
        __mmask16 lanes = tide_first_16(t->width - v * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            if (i >= t->rows || !lanes)
                break;
            tide_tile_write(t, i, v * LANES, lanes, sums[i][v], to);
        }
    }
}

TIDE_INLINE TIDE_AVX512 void keep_sums(const struct tide_tile *t, __m512 sums[ROWS][VECTORS],
                                       const int vectors)
{
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            _mm512_store_ps(t->sums + (i * VECTORS + v) * LANES, sums[i][v]);
}

/* What a tile asks for while it multiplies: its part of c, the next columns, and more. */
struct asking {
    const char *c;
    int64_t c_left, c_bytes;
    struct tide_lines ask, more;
    int64_t at_a_time;
};

enum { AHEAD = 16 }; /* cells; b comes from the second-level cache */

TIDE_INLINE struct asking asking_of(const struct tide_tile *t)
{
    return (struct asking){.c = t->c,
                           .c_left = t->ends ? t->rows : 0,
                           .c_bytes = t->c_stride * (int64_t)tide_dtype_bytes(t->to),
                           .ask = t->ask,
                           .more = t->ask_more,
                           .at_a_time = t->ask.count ? (t->ask.count * AHEAD + t->cells - 1) / t->cells : 0};
}

TIDE_INLINE void ask_some(struct asking *a)
{
    tide_lines_ask(&a->ask, a->ask.count > a->at_a_time ? a->ask.count - a->at_a_time : 0);
    if (a->c_left > 0) {
        for (int v = 0; v < VECTORS; v++)
            __builtin_prefetch(a->c + v * TIDE_LINE, 1, 3);
        a->c += a->c_bytes;
        a->c_left--;
    }
}

/* The same sums from bf16 need the target that has its instruction, so the loop is written for both. */
#define MULTIPLY(name, marks, per_cell, PRODUCT)                                                             \
    TIDE_INLINE marks void name(const struct tide_tile *t, const int64_t a_row, const int64_t a_cell,        \
                                const int vectors)                                                           \
    {                                                                                                        \
        __m512 sums[ROWS][VECTORS];                                                                          \
        const uint32_t *a = t->a, *b = t->b;                                                                 \
        const int64_t b_cell = t->b_cell;                                                                    \
        struct asking asking = asking_of(t);                                                                 \
        _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                               \
            _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) sums[i][v] =                           \
                t->begins ? _mm512_setzero_ps() : _mm512_load_ps(t->sums + (i * VECTORS + v) * LANES);       \
        for (int64_t cell = 0; cell < t->cells;) {                                                           \
            int64_t stop = cell + AHEAD < t->cells ? cell + AHEAD : t->cells;                                \
            ask_some(&asking);                                                                               \
            bool asks = asking.more.count > 0;                                                               \
            const char *more = asks ? tide_lines_next(&asking.more, AHEAD * per_cell) : (const char *)a;     \
            const int64_t step = asks ? TIDE_LINE : 0;                                                       \
            for (; cell < stop; cell++, a += a_cell, b += b_cell) {                                          \
                __m512 columns[VECTORS];                                                                     \
                for (int i = 0; i < per_cell; i++)                                                           \
                    _mm_prefetch(more + i * AHEAD * TIDE_LINE, _MM_HINT_T1);                                 \
                more += step;                                                                                \
                _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++)                                    \
                {                                                                                            \
                    columns[v] = _mm512_load_ps(b + v * LANES);                                              \
                    _mm_prefetch((const char *)(b + AHEAD * b_cell + v * LANES), _MM_HINT_T0);               \
                }                                                                                            \
                _Pragma("GCC unroll 8") for (int i = 0; i < ROWS; i++)                                       \
                {                                                                                            \
                    __m512 row = (__m512)_mm512_set1_epi32((int)a[i * a_row]);                               \
                    _Pragma("GCC unroll 3") for (int v = 0; v < vectors; v++) sums[i][v] =                   \
                        PRODUCT(sums[i][v], row, columns[v]);                                                \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        if (!t->ends)                                                                                        \
            keep_sums(t, sums, vectors);                                                                     \
        else if (t->to == TIDE_F32)                                                                          \
            write_sums(t, sums, vectors, TIDE_F32);                                                          \
        else                                                                                                 \
            write_sums(t, sums, vectors, TIDE_BF16);                                                         \
    }

#define F32_PRODUCT(sum, row, column)  _mm512_fmadd_ps(row, column, sum)
#define BF16_PRODUCT(sum, row, column) _mm512_dpbf16_ps(sum, (__m512bh)(row), (__m512bh)(column))
MULTIPLY(multiply_f32, TIDE_AVX512, 1, F32_PRODUCT)
MULTIPLY(multiply_bf16, TIDE_AVX512_BF16, 2, BF16_PRODUCT)

/* Of the last columns there may be fewer vectors. */
#define TILE(name, marks, multiply)                                                                          \
    TIDE_INLINE marks void name(const struct tide_tile *t, const int64_t a_row, const int64_t a_cell)        \
    {                                                                                                        \
        if (t->width > 2 * LANES)                                                                            \
            multiply(t, a_row, a_cell, 3);                                                                   \
        else if (t->width > LANES)                                                                           \
            multiply(t, a_row, a_cell, 2);                                                                   \
        else                                                                                                 \
            multiply(t, a_row, a_cell, 1);                                                                   \
    }
TILE(tile_of_f32, TIDE_AVX512, multiply_f32)
TILE(tile_of_bf16, TIDE_AVX512_BF16, multiply_bf16)

TIDE_AVX512 static void tile_f32(const struct tide_tile *t)
{
    if (t->a_row == 1 && t->a_cell == LANES)
        tile_of_f32(t, 1, LANES);
    else
        tile_of_f32(t, t->a_row, t->a_cell);
}

TIDE_AVX512_BF16 static void tile_bf16(const struct tide_tile *t)
{
    tile_of_bf16(t, 1, LANES);
}

const struct tide_tile_kind tide_tile_avx512 = {.name = "AVX-512",
                                                .cells = TIDE_F32,
                                                .rows = ROWS,
                                                .columns = VECTORS * LANES,
                                                .cell_step = 1,
                                                .most_in_place = INT64_MAX,
                                                .block = 768,
                                                .group = 1,
                                                .rows_to_pack_for = 512,
                                                .more_per_cell = 1,
                                                .pack_a = tide_pack_avx512,
                                                .pack_b = tide_pack_avx512,
                                                .tile = tile_f32};

const struct tide_tile_kind tide_tile_avx512_bf16 = {.name = "AVX-512 bf16",
                                                     .cells = TIDE_BF16,
                                                     .rows = ROWS,
                                                     .columns = VECTORS * LANES,
                                                     .cell_step = 1,
                                                     .block = 768,
                                                     .group = 1,
                                                     .rows_to_pack_for = 512,
                                                     .more_per_cell = 2,
                                                     .pack_a = tide_pack_avx512,
                                                     .pack_b = tide_pack_avx512,
                                                     .tile = tile_bf16};

#endif
