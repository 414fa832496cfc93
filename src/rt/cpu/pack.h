/*
 * pack.h - operands of a matrix product, rearranged for tiles: several rows of a, or columns of b,
 * interleaved.
 *
 * A packed operand consists of cells, words of 32 bits: an f32, or two bf16 that follow each other in k.
 * Numbers are widened or rounded on the way, those of TIDE_I8 to f32 first. Cells beyond an edge are 0.
 */
#ifndef TIDE_PACK_H
#define TIDE_PACK_H

#include "rt/dtype.h"

#include <stdbool.h>

enum { TIDE_LANES = 16 };

/* The part of an operand that is multiplied at a time: all its lines, and a range of k that starts at a
 * multiple of TIDE_BLOCK. */
struct tide_operand {
    const char *data;
    int64_t stride;           /* of rows in memory, in bytes */
    bool is_along;            /* k runs along the rows; else across them */
    int64_t lines;            /* rows of a, columns of b */
    int64_t numbers;          /* in k */
    enum tide_dtype from, to; /* in memory, in cells */
    int64_t scales;           /* for TIDE_I8: bytes from data to the first scale */
};

/* A whole operand. stride: between rows, in numbers, for TIDE_I8 in bytes. `to` is f32. */
struct tide_operand tide_operand_of(const void *data, enum tide_dtype from, int64_t stride, bool is_along,
                                    int64_t lines, int64_t numbers);

/* Returns the scale of a number in a row. row: the address of its first number in the operand's range. */
static inline float tide_operand_scale(const struct tide_operand *operand, const char *row, int64_t at)
{
    return ((const float *)(const void *)(row + operand->scales))[at / TIDE_BLOCK];
}

/* Returns the number. */
static inline float tide_operand_number(const struct tide_operand *operand, const char *row, int64_t at)
{
    return operand->from == TIDE_I8 ? (float)((const int8_t *)row)[at] * tide_operand_scale(operand, row, at)
                                    : (float)tide_number(row, operand->from, at);
}

/* `lanes` lines from `line` on, cells [first, last). first is a multiple of 16; so is line if lanes is. */
struct tide_strip {
    int64_t line, lanes, first, last;
};

/* Writes lane l of a cell to to[cell * lanes + l]. to is 64-byte aligned. */
typedef void tide_packer(const struct tide_operand *operand, struct tide_strip strip, uint32_t *to);

/* For any processor, f32 cells only. */
tide_packer tide_pack;

/* With AVX-512; lanes is a multiple of 16. */
tide_packer tide_pack_avx512;

/* Likewise, for sixteen lanes, but in squares of sixteen cells, line by line, as AMX wants rows of a. A cell
 * of a lane goes to to[cell / 16 * 256 + lane * 16 + cell % 16]; last is a multiple of 16. */
tide_packer tide_pack_squares;

/* The cache lines that a strip is read from, to prefetch them in time. */
struct tide_cache_lines {
    const char *row;
    int64_t stride, per_row, at; /* at: how many of this row were prefetched */
    int64_t count;               /* how many of all rows were not */
};

struct tide_cache_lines tide_pack_cache_lines(const struct tide_operand *operand, struct tide_strip strip);

/* Returns the next line and moves past it. */
static inline const char *tide_cache_lines_next(struct tide_cache_lines *lines)
{
    const char *next = lines->row + lines->at * TIDE_CACHE_LINE;
    lines->count--;
    if (++lines->at == lines->per_row) {
        lines->at = 0;
        lines->row += lines->stride;
    }
    return next;
}

/* Prefetches all but the last `left` remaining lines into the second-level cache. */
static inline void tide_cache_lines_ask(struct tide_cache_lines *lines, int64_t left)
{
    while (lines->count > left)
        __builtin_prefetch(tide_cache_lines_next(lines), 0, 2);
}

/* Prefetches `count` lines, or what is left. */
static inline void tide_cache_lines_ask_some(struct tide_cache_lines *lines, int64_t count)
{
    tide_cache_lines_ask(lines, lines->count > count ? lines->count - count : 0);
}

#endif
