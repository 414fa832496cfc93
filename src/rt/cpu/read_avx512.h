/*
 * read_avx512.h - reads sixteen cells of an operand (pack.h) into a register, from any type.
 *
 * The bf16 instructions are used only where numbers are rounded to bf16.
 */
#ifndef TIDE_READ_AVX512_H
#define TIDE_READ_AVX512_H

#if defined(__x86_64__)

#include "rt/cpu/avx512.h"
#include "rt/cpu/pack.h"

/* Sixteen numbers as f32; those not in the mask are 0. */
TIDE_INLINE TIDE_AVX512_BF16 __m512 tide_read_16(const char *from_here, __mmask16 there, enum tide_dtype from,
                                                 float scale)
{
    if (from == TIDE_F32)
        return _mm512_maskz_loadu_ps(there, from_here);
    if (from == TIDE_BF16)
        return tide_widen_16(_mm256_maskz_loadu_epi16(there, from_here));
    __m512i whole = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(there, from_here));
    return _mm512_maskz_mul_ps(there, _mm512_cvtepi32_ps(whole), _mm512_set1_ps(scale));
}

/* Sixteen cells of a row that k runs along. Only the first `numbers` numbers exist, unless `all` is true. */
TIDE_INLINE TIDE_AVX512_BF16 __m512i tide_cells_along(const char *row, bool all, int64_t numbers,
                                                      enum tide_dtype from, enum tide_dtype as, float scale)
{
    const int64_t size = (int64_t)tide_dtype_bytes(from);
    __mmask16 first = all ? 0xffff : tide_first_16(numbers),
              second = all ? 0xffff : tide_first_16(numbers - 16);
    if (as == TIDE_F32)
        return (__m512i)tide_read_16(row, first, from, scale);
    if (from == TIDE_BF16)
        return _mm512_maskz_loadu_epi16(_mm512_kunpackw(second, first), row);
    return (__m512i)_mm512_cvtne2ps_pbh(tide_read_16(row + TIDE_LANES * size, second, from, scale),
                                        tide_read_16(row, first, from, scale));
}

/* Returns the scale of a row's sixteen columns from `line` on, if there are any. */
TIDE_INLINE float tide_scale_across(const struct tide_operand *o, const char *row, int64_t line,
                                    __mmask16 columns, enum tide_dtype from)
{
    return from == TIDE_I8 && columns ? tide_operand_scale(o, row, line) : 0;
}

/* Sixteen columns of a cell from `line` on, masked by `columns`. two: the cell has a second number. */
TIDE_INLINE TIDE_AVX512_BF16 __m512i tide_cell_across(const struct tide_operand *o, const char *row,
                                                      int64_t line, __mmask16 columns, bool two,
                                                      enum tide_dtype from, enum tide_dtype as)
{
    const char *at = row + line * (int64_t)tide_dtype_bytes(from);
    __mmask16 below = two ? columns : 0; /* for the next row */
    __m512i both;
    if (as == TIDE_F32)
        return (__m512i)tide_read_16(at, columns, from, tide_scale_across(o, row, line, columns, from));
    if (from == TIDE_BF16)
        both = _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(columns, at)),
            two ? _mm256_maskz_loadu_epi16(columns, at + o->stride) : _mm256_setzero_si256(), 1);
    else
        both = (__m512i)_mm512_cvtne2ps_pbh(
            two ? tide_read_16(at + o->stride, below, from,
                               tide_scale_across(o, row + o->stride, line, below, from))
                : _mm512_setzero_ps(),
            tide_read_16(at, columns, from, tide_scale_across(o, row, line, columns, from)));
    /* Interleaves the two halves. */
    const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(turns, both);
}

#endif

#endif
