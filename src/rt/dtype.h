/*
 * dtype.h - the kinds of numbers in a tensor, rounding between them, and how they are aligned.
 */
#ifndef TIDE_DTYPE_H
#define TIDE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum tide_dtype { TIDE_F32, TIDE_BF16, TIDE_I32 };

static inline size_t tide_dtype_bytes(enum tide_dtype dtype)
{
    return dtype == TIDE_BF16 ? 2 : 4;
}

/* Everything in the arena begins at a multiple of this. */
enum { TIDE_ALIGN = 64 };

/* What processors fetch memory in. */
enum { TIDE_LINE = 64 };

static inline size_t tide_aligned(size_t bytes)
{
    return (bytes + TIDE_ALIGN - 1) / TIDE_ALIGN * TIDE_ALIGN;
}

typedef uint16_t tide_bf16;

static inline float tide_from_bf16(tide_bf16 half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To the nearest, ties to even; a NaN stays one. */
static inline tide_bf16 tide_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (tide_bf16)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded >> 16);
}

/* Number `at` of an array of f32 or bf16. */
static inline double tide_number(const void *from, enum tide_dtype dtype, int64_t at)
{
    return dtype == TIDE_BF16 ? tide_from_bf16(((const tide_bf16 *)from)[at]) : ((const float *)from)[at];
}

static inline void tide_number_set(void *to, enum tide_dtype dtype, int64_t at, double value)
{
    if (dtype == TIDE_BF16)
        ((tide_bf16 *)to)[at] = tide_to_bf16((float)value);
    else
        ((float *)to)[at] = (float)value;
}

#endif
