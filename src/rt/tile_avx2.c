/*
 * tile_avx2.c - tiles of 4 x 24: twelve vectors of sums, three of b and one of a, which are the sixteen there
 * are.
 */
#include "rt/kernel.h"
#include "rt/tile.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))

enum { ROWS = 4, VECTORS = 3, LANES = 8, COLUMNS = VECTORS * LANES, AHEAD = 16 };

TIDE_INLINE AVX2 void write_whole(const struct tide_tile *t, __m256 sums[ROWS][VECTORS])
{
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) {
            float *c = (float *)(void *)t->c + i * t->c_stride + v * LANES;
            __m256 sum = sums[i][v];
            if (t->bias)
                sum = _mm256_add_ps(sum, _mm256_loadu_ps(t->bias + v * LANES));
            if (t->adds)
                sum = _mm256_add_ps(sum, _mm256_loadu_ps(c));
            _mm256_storeu_ps(c, sum);
        }
}

TIDE_INLINE AVX2 void multiply(const struct tide_tile *t, const int64_t a_row, const int64_t a_cell)
{
    __m256 sums[ROWS][VECTORS];
    const float *a = (const float *)(const void *)t->a, *b = (const float *)(const void *)t->b;
    const int64_t b_cell = t->b_cell;
    struct tide_lines ask = t->ask, more = t->ask_more;
    int64_t asks = (ask.count * AHEAD + t->cells - 1) / t->cells,
            asks_more = (more.count * AHEAD + t->cells - 1) / t->cells;
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            sums[i][v] = t->begins ? _mm256_setzero_ps() : _mm256_load_ps(t->sums + i * COLUMNS + v * LANES);
    for (int64_t cell = 0; cell < t->cells;) {
        int64_t stop = cell + AHEAD < t->cells ? cell + AHEAD : t->cells;
        tide_lines_ask(&ask, ask.count > asks ? ask.count - asks : 0);
        tide_lines_ask(&more, more.count > asks_more ? more.count - asks_more : 0);
        for (; cell < stop; cell++, a += a_cell, b += b_cell) {
            __m256 columns[VECTORS];
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++)
                columns[v] = _mm256_loadu_ps(b + v * LANES);
            _mm_prefetch((const char *)(b + AHEAD * b_cell), _MM_HINT_T0);
            _mm_prefetch((const char *)(b + AHEAD * b_cell + 2 * LANES), _MM_HINT_T0);
#pragma GCC unroll 4
            for (int i = 0; i < ROWS; i++) {
                __m256 row = _mm256_broadcast_ss(a + i * a_row);
#pragma GCC unroll 3
                for (int v = 0; v < VECTORS; v++)
                    sums[i][v] = _mm256_fmadd_ps(row, columns[v], sums[i][v]);
            }
        }
    }
    if (t->ends && t->to == TIDE_F32 && t->rows == ROWS && t->width == COLUMNS) {
        write_whole(t, sums);
        return;
    }
    _Alignas(32) float room[ROWS * COLUMNS], *all = t->ends ? room : t->sums;
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            _mm256_store_ps(all + i * COLUMNS + v * LANES, sums[i][v]);
    if (t->ends)
        tide_tile_write_plainly(t, all, COLUMNS);
}

AVX2 static void tile_avx2(const struct tide_tile *t)
{
    if (t->a_row == 1 && t->a_cell == TIDE_LANES)
        multiply(t, 1, TIDE_LANES);
    else
        multiply(t, t->a_row, t->a_cell);
}

const struct tide_tile_kind tide_tile_avx2 = {.name = "AVX2",
                                              .cells = TIDE_F32,
                                              .rows = ROWS,
                                              .columns = COLUMNS,
                                              .cell_step = 1,
                                              .reads_in_place = true,
                                              .block = 768,
                                              .more_per_cell = 1,
                                              .pack_a = tide_pack,
                                              .pack_b = tide_pack,
                                              .tile = tile_avx2};

#endif
