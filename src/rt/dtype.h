/*
 * dtype.h - the number types of tensors, conversion between them, and alignment.
 *
 * A tensor is stored row by row and each row is contiguous, so any range of rows is a pointer. A row of f32,
 * bf16 or i32 is just its numbers. A row of TIDE_I8 is its numbers as int8, then 0 to 3 bytes of padding up
 * to a multiple of four, then an f32 scale for each 64 numbers, the last of which may cover fewer. A number
 * is its int8 times its scale, rounded to f32.
 */
#ifndef TIDE_DTYPE_H
#define TIDE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* TIDE_U8: codes that stand for numbers; only their owner knows their meaning. */
enum tide_dtype { TIDE_F32, TIDE_BF16, TIDE_I32, TIDE_I8, TIDE_U8 };

/* Bytes of a number; for TIDE_I8 without its share of a scale. */
static inline size_t tide_dtype_bytes(enum tide_dtype dtype)
{
    return dtype == TIDE_I8 || dtype == TIDE_U8 ? 1 : dtype == TIDE_BF16 ? 2 : 4;
}

/* Numbers that share a scale. */
enum { TIDE_BLOCK = 64 };

/* Returns the offset of the scales in a row of TIDE_I8. */
static inline size_t tide_row_scales(int64_t columns)
{
    return ((size_t)columns + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

/* The same from the bytes of a row. */
static inline size_t tide_row_scales_in(size_t row_bytes)
{
    enum { BLOCK_BYTES = TIDE_BLOCK + sizeof(float) };
    return row_bytes - (row_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * sizeof(float);
}

/* Bytes from one row to the next. */
static inline size_t tide_row_bytes(enum tide_dtype dtype, int64_t columns)
{
    size_t blocks = ((size_t)columns + TIDE_BLOCK - 1) / TIDE_BLOCK;
    return dtype == TIDE_I8 ? tide_row_scales(columns) + blocks * sizeof(float)
                            : (size_t)columns * tide_dtype_bytes(dtype);
}

/* Everything in the arena begins at a multiple of this. */
enum { TIDE_ALIGN = 64 };

/* What processors fetch memory in. */
enum { TIDE_CACHE_LINE = 64 };

static inline size_t tide_aligned(size_t bytes)
{
    return (bytes + TIDE_ALIGN - 1) / TIDE_ALIGN * TIDE_ALIGN;
}

/* Takes the next bytes of some memory, aligned. memory NULL: only counts. */
static inline void *tide_part(char *memory, size_t *at, size_t bytes)
{
    void *part = memory ? memory + *at : NULL;
    *at += tide_aligned(bytes);
    return part;
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
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, not_a_number = bits >> 16 | 0x40;
    return (tide_bf16)((bits & 0x7fffffff) > 0x7f800000 ? not_a_number : rounded);
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

/* A number in a row of that many columns, of f32, bf16 or TIDE_I8. */
static inline double tide_row_number(const void *row, enum tide_dtype dtype, int64_t columns, int64_t column)
{
    if (dtype != TIDE_I8)
        return tide_number(row, dtype, column);
    const float *scales = (const float *)(const void *)((const char *)row + tide_row_scales(columns));
    return (float)((const int8_t *)row)[column] * scales[column / TIDE_BLOCK];
}

#endif
