/*
 * tile_write.h - the sums of an AVX-512 tile, eight rows of three vectors: macros for the multiplying loop,
 * and functions that write them to c, sixteen at a time.
 */
#ifndef TIDE_TILE_WRITE_H
#define TIDE_TILE_WRITE_H

#if defined(__x86_64__)

#include "rt/cpu/avx512.h"
#include "rt/cpu/tile.h"

/* The multiplying loop indexes its sums with constants only. So they stay in registers whatever the compiler
 * does with loops, and a sanitizer has nothing to check there. */
#define TIDE_EACH_VECTOR(DO, i, with) DO(i, 0, with) DO(i, 1, with) DO(i, 2, with)
#define TIDE_EACH_ROW(DO, with)                                                                              \
    DO(0, with) DO(1, with) DO(2, with) DO(3, with) DO(4, with) DO(5, with) DO(6, with) DO(7, with)
#define TIDE_TAKE(i, v, with)  own[i][v] = (v) < vectors ? sums[i][v] : _mm512_setzero_ps();
#define TIDE_TAKE_ROW(i, with) TIDE_EACH_VECTOR(TIDE_TAKE, i, with)
#define TIDE_GIVE(i, v, with)  sums[i][v] = own[i][v];
#define TIDE_GIVE_ROW(i, with) TIDE_EACH_VECTOR(TIDE_GIVE, i, with)
#define TIDE_ADD(i, v, PRODUCT)                                                                              \
    if ((v) < vectors)                                                                                       \
        own[i][v] = PRODUCT(own[i][v], row, columns[v]);

#define TIDE_F32_PRODUCT(sum, row, column)  _mm512_fmadd_ps(row, column, sum)
#define TIDE_BF16_PRODUCT(sum, row, column) _mm512_dpbf16_ps(sum, (__m512bh)(row), (__m512bh)(column))

/* Keeps the sums of eight rows until the next cells of k. */
TIDE_INLINE TIDE_AVX512 void tide_sums_keep(float *to, __m512 sums[8][3], const int vectors)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            _mm512_store_ps(to + (i * 3 + v) * TIDE_LANES, sums[i][v]);
}

/* Writes the sums in `lanes` to a row of c from column j on. add: stored like the row; NULL: nothing is
 * added. bias NULL: none. */
TIDE_INLINE TIDE_AVX512 void tide_sums_write(char *row, const char *add, int64_t j, __mmask16 lanes,
                                             __m512 sum, enum tide_dtype to, const float *bias, bool relu)
{
    const int64_t at = j * (int64_t)tide_dtype_bytes(to);
    if (bias)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes, bias + j));
    if (add && to == TIDE_F32)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes, add + at));
    else if (add)
        sum = _mm512_add_ps(sum, tide_widen_16(_mm256_maskz_loadu_epi16(lanes, add + at)));
    if (relu)
        sum = _mm512_max_ps(sum, _mm512_setzero_ps());
    if (to == TIDE_F32)
        _mm512_mask_storeu_ps(row + at, lanes, sum);
    else
        _mm512_mask_cvtepi32_storeu_epi16(row + at, lanes, tide_narrow_16(sum));
}

/* The same for row i of a tile. */
TIDE_INLINE TIDE_AVX512 void tide_tile_write(const struct tide_tile *t, int64_t i, int64_t j, __mmask16 lanes,
                                             __m512 sum, enum tide_dtype to)
{
    int64_t at = i * t->c_stride * (int64_t)tide_dtype_bytes(to);
    tide_sums_write(t->c + at, t->add ? t->add + at : NULL, j, lanes, sum, to, t->bias, t->relu);
}

#endif

#endif
