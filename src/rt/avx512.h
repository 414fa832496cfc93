/*
 * avx512.h - for the few functions that are written in vectors of sixteen f32 by hand.
 *
 * A function marked TIDE_AVX512 may be called only where tide_tiles_can() says so, and with bf16 only where
 * it says so of that.
 */
#ifndef TIDE_AVX512_H
#define TIDE_AVX512_H

#if defined(__x86_64__)

#include "rt/kernel.h"

#include <immintrin.h>

#define TIDE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

/* As many lanes as there are, from the first on. */
TIDE_INLINE TIDE_AVX512 __mmask16 tide_first_16(int64_t count)
{
    return count >= 16 ? 0xffff : count <= 0 ? 0 : (__mmask16)((1U << count) - 1);
}

#endif

#endif
