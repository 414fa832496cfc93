/*
 * pack.h - operands of a matrix product, rearranged for tiles: some rows of a, or columns of b, side by side.
 *
 * A packed operand consists of cells, words of 32 bits: an f32, or two bf16 that follow each other in k.
 * Numbers are widened or rounded on the way, those of TIDE_I8 to f32 first; what lies beyond an edge is 0.
 */
#ifndef TIDE_PACK_H
#define TIDE_PACK_H

#include "rt/dtype.h"

#include <stdbool.h>

enum { TIDE_LANES = 16 };

/* What of an operand is multiplied at a time: all its lines, some of its k, from a multiple of TIDE_BLOCK on.
 */
struct tide_operand {
    const char *data;
    int64_t stride;           /* of rows in memory, in bytes */
    bool is_along;            /* k runs along the rows; else across them */
    int64_t lines;            /* rows of a, columns of b */
    int64_t numbers;          /* of k */
    enum tide_dtype from, to; /* in memory, in cells */
    int64_t scales;           /* of TIDE_I8: from data to the first scale, in bytes */
};

/* All of an operand whose rows are so far apart, in numbers, or of TIDE_I8 in bytes; `to` is f32. */
struct tide_operand tide_operand_of(const void *data, enum tide_dtype from, int64_t stride, bool is_along,
                                    int64_t lines, int64_t numbers);

/* The scale of a number of a row. The row is given as where its first number is, or was skipped to. */
static inline float tide_operand_scale(const struct tide_operand *operand, const char *row, int64_t at)
{
    return ((const float *)(const void *)(row + operand->scales))[at / TIDE_BLOCK];
}

/* The number. */
static inline float tide_operand_number(const struct tide_operand *operand, const char *row, int64_t at)
{
    return operand->from == TIDE_I8 ? (float)((const int8_t *)row)[at] * tide_operand_scale(operand, row, at)
                                    : (float)tide_number(row, operand->from, at);
}

/* `lanes` lines from `line` on, of the cells [first, last); first is a multiple of 16, and so is line where
 * lanes are. */
struct tide_strip {
    int64_t line, lanes, first, last;
};

/* Lane l of a cell goes to to[cell * lanes + l]. to is 64-byte aligned. */
typedef void tide_packer(const struct tide_operand *operand, struct tide_strip strip, uint32_t *to);

/* On every processor, but cells are f32. */
tide_packer tide_pack;

/* With AVX-512; lanes are a multiple of 16. */
tide_packer tide_pack_avx512;

/* Likewise, sixteen lanes, and not cell by cell but line by line within sixteen cells: as AMX wants rows of
 * a. The cell and lane go to to[cell / 16 * 256 + lane * 16 + cell % 16]; last is a multiple of 16. */
tide_packer tide_pack_squares;

/* The cache lines that a strip is read from, for asking for them in time. */
struct tide_cache_lines {
    const char *row;
    int64_t stride, per_row, at; /* at: of this row, those that were asked for */
    int64_t count;               /* that were not, of all rows */
};

struct tide_cache_lines tide_pack_cache_lines(const struct tide_operand *operand, struct tide_strip strip);

/* The next ones of its row, so many or what is left of it, and goes on behind them. */
static inline const char *tide_cache_lines_next(struct tide_cache_lines *lines, int64_t count)
{
    const char *next = lines->row + lines->at * TIDE_CACHE_LINE;
    int64_t rest = lines->per_row - lines->at;
    lines->at += count;
    lines->count -= count < rest ? count : rest;
    if (count >= rest) {
        lines->at = 0;
        lines->row += lines->stride;
    }
    return next;
}

/* All but the last `left` that were not asked for yet, into the second-level cache. */
static inline void tide_cache_lines_ask(struct tide_cache_lines *lines, int64_t left)
{
    for (; lines->count > left; lines->count--) {
        __builtin_prefetch(lines->row + lines->at * TIDE_CACHE_LINE, 0, 2);
        if (++lines->at == lines->per_row) {
            lines->at = 0;
            lines->row += lines->stride;
        }
    }
}

/* So many, or what is left. */
static inline void tide_cache_lines_ask_some(struct tide_cache_lines *lines, int64_t count)
{
    tide_cache_lines_ask(lines, lines->count > count ? lines->count - count : 0);
}

#endif
