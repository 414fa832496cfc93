/*
 * tile_write.h - the end of a tile with AVX-512: sums become numbers of c, sixteen at a time.
 */
#ifndef TIDE_TILE_WRITE_H
#define TIDE_TILE_WRITE_H

#if defined(__x86_64__)

#include "rt/cpu/avx512.h"
#include "rt/cpu/tile.h"

/* Sums of the lanes that there are, to a row of c from column j on. add lies as the row, NULL: nothing is
 * added; bias, NULL: none. */
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

/* Of row i of a tile. */
TIDE_INLINE TIDE_AVX512 void tide_tile_write(const struct tide_tile *t, int64_t i, int64_t j, __mmask16 lanes,
                                             __m512 sum, enum tide_dtype to)
{
    int64_t at = i * t->c_stride * (int64_t)tide_dtype_bytes(to);
    tide_sums_write(t->c + at, t->add ? t->add + at : NULL, j, lanes, sum, to, t->bias, t->relu);
}

#endif

#endif
