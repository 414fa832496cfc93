/*
 * avx512.h - for the few functions that are written with intrinsics, in vectors of sixteen f32.
 *
 * Call a function marked TIDE_AVX512 only if tide_isa() is TIDE_ISA_AVX512 or more; call one marked
 * TIDE_AVX512_BF16 only if it is TIDE_ISA_AMX or tide_processor_multiplies_bf16() is true.
 */
#ifndef TIDE_AVX512_H
#define TIDE_AVX512_H

#if defined(__x86_64__)

#include "rt/cpu/inner_loops.h"

#include <immintrin.h>

#define TIDE_AVX512      __attribute__((target("fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")))
#define TIDE_AVX512_BF16 __attribute__((target("fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16")))

/* A mask of the first `count` lanes, at most all. */
TIDE_INLINE TIDE_AVX512 __mmask16 tide_first_16(int64_t count)
{
    return count >= 16 ? 0xffff : count <= 0 ? 0 : (__mmask16)((1U << count) - 1);
}

/* Rounds to bf16 as tide_to_bf16 does, in the low half of each lane. */
TIDE_INLINE TIDE_AVX512 __m512i tide_narrow_16(__m512 x)
{
    __m512i bits = (__m512i)x, odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 none = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); /* a NaN stays one */
    rounded = _mm512_mask_or_epi32(rounded, none, bits, _mm512_set1_epi32(0x400000));
    return _mm512_srli_epi32(rounded, 16);
}

TIDE_INLINE TIDE_AVX512 __m512 tide_widen_16(__m256i halves)
{
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
}

#endif

#endif
