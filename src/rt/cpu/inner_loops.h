/*
 * inner_loops.h - helpers for inner loops.
 *
 * A function written with TIDE_KERNEL is compiled for several processors; tide_isa() selects which one is
 * called:
 *
 *     TIDE_KERNEL(float, largest, (const float *x, int64_t count), (x, count))
 *     {
 *         ...
 *     }
 *
 * The small functions here are written so that the compiler can vectorise them.
 */
#ifndef TIDE_INNER_LOOPS_H
#define TIDE_INNER_LOOPS_H

#include "rt/cpu/processor.h"
#include "rt/dtype.h"

#define TIDE_INLINE static inline __attribute__((always_inline))

/* clang-format off */
#if defined(__x86_64__)
#define TIDE_KERNEL(type, name, parameters, arguments)                                                       \
    TIDE_INLINE type name##_body parameters;                                                                 \
    __attribute__((target("arch=x86-64-v4"))) static type name##_v4 parameters { return name##_body arguments; } \
    __attribute__((target("arch=x86-64-v3"))) static type name##_v3 parameters { return name##_body arguments; } \
    static type name##_plain parameters { return name##_body arguments; }                                    \
    static type name parameters                                                                              \
    {                                                                                                        \
        enum tide_isa isa = tide_isa();                                                                      \
        return isa >= TIDE_ISA_AVX512 ? name##_v4 arguments                                                  \
               : isa == TIDE_ISA_AVX2 ? name##_v3 arguments                                                  \
                                      : name##_plain arguments;                                              \
    }                                                                                                        \
    TIDE_INLINE type name##_body parameters
#else
#define TIDE_KERNEL(type, name, parameters, arguments) static type name parameters
#endif
/* clang-format on */

/* Prefetches memory that will be read soon. The addresses may be invalid. */
TIDE_INLINE void tide_ask(const void *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += TIDE_CACHE_LINE)
        __builtin_prefetch((const char *)from + i);
}

/* Sixteen numbers; need not be aligned. */
typedef float tide_16 __attribute__((vector_size(64), aligned(4), may_alias));

TIDE_INLINE float tide_bits_float(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

TIDE_INLINE uint32_t tide_float_bits(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* e^x to about one and a half units in the last place. Results are clamped at the ends of the range, and a
 * NaN stays one. */
TIDE_INLINE float tide_exp(float x)
{
    const float magic = 12582912.0F; /* 1.5 * 2^23: adding it rounds to a whole number */
    x = x < -87.3F ? -87.3F : x;
    x = x > 88.3F ? 88.3F : x;
    float sum = x * 1.44269504F + magic, n = sum - magic; /* the last bits of sum are n, too */
    float r = x - n * 0.693359375F + n * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    return p * tide_bits_float((tide_float_bits(sum) - tide_float_bits(magic) + 127) << 23);
}

TIDE_INLINE float tide_tanh(float x)
{
    return 1.0F - 2.0F / (tide_exp(2.0F * x) + 1.0F);
}

#endif
