/*
 * window_avx2.c - tiles of windows with AVX2: as in tile_avx2.c, 4 x 24.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/tile.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))

enum { ROWS = 4, VECTORS = 3, LANES = 8, COLUMNS = VECTORS * LANES };

TIDE_INLINE AVX2 void write_whole(const struct tide_window_tile *t, __m256 sums[ROWS][VECTORS])
{
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) {
            float *c = (float *)(void *)(t->c + t->c_row[i]) + v * LANES;
            __m256 sum = sums[i][v];
            if (t->bias)
                sum = _mm256_add_ps(sum, _mm256_loadu_ps(t->bias + v * LANES));
            if (t->add)
                sum = _mm256_add_ps(
                    sum, _mm256_loadu_ps((const float *)(const void *)(t->add + t->c_row[i]) + v * LANES));
            if (t->relu)
                sum = _mm256_max_ps(sum, _mm256_setzero_ps());
            _mm256_storeu_ps(c, sum);
        }
}

static void write_plainly(const struct tide_window_tile *t, const float *sums)
{
    struct tide_tile row = {.to = t->to, .rows = 1, .width = t->width, .bias = t->bias, .relu = t->relu};
    for (int64_t i = 0; i < t->rows; i++) {
        row.c = t->c + t->c_row[i];
        row.add = t->add ? t->add + t->c_row[i] : NULL;
        tide_tile_write_plainly(&row, sums + i * COLUMNS, COLUMNS);
    }
}

/* cuts: only some lanes of the last vector may be read. */
TIDE_INLINE AVX2 void multiply(const struct tide_window_tile *t, const int vectors, const bool cuts)
{
    __m256 sums[ROWS][VECTORS];
    const float *a[ROWS];
    const int64_t b_cell = t->b_cell, a_cell = t->a_cell;
    const __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)t->width - (vectors - 1) * LANES),
                                             _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; i++) {
        a[i] = (const float *)(const void *)t->a[i];
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++)
            sums[i][v] = t->begins ? _mm256_setzero_ps() : _mm256_load_ps(t->sums + i * COLUMNS + v * LANES);
    }
    for (int64_t s = 0; s < t->stretch_count; s++) {
        const struct tide_stretch stretch = t->stretches[s];
        const float *b = (const float *)(const void *)t->b + stretch.b * b_cell;
        int64_t at = stretch.a;
        for (int64_t cell = 0; cell < stretch.cells; cell++, at += a_cell, b += b_cell) {
            __m256 columns[VECTORS];
#pragma GCC unroll 3
            for (int v = 0; v < vectors; v++)
                columns[v] = cuts && v == vectors - 1 ? _mm256_maskload_ps(b + v * LANES, lanes)
                                                      : _mm256_loadu_ps(b + v * LANES);
#pragma GCC unroll 4
            for (int i = 0; i < ROWS; i++) {
                __m256 row = _mm256_broadcast_ss(a[i] + at);
#pragma GCC unroll 3
                for (int v = 0; v < vectors; v++)
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
        write_plainly(t, all);
}

AVX2 void tide_window_avx2(const struct tide_window_tile *t)
{
    if (t->width > 2 * LANES && !t->is_cut)
        multiply(t, 3, false);
    else if (t->width > 2 * LANES)
        multiply(t, 3, true);
    else if (t->width > LANES)
        multiply(t, 2, true);
    else
        multiply(t, 1, true);
}

#endif
