/*
 * rows.h - converts rows of numbers between types, for operators whose operands may be stored in any.
 *
 * A row becomes TIDE_I8 block by block. The scale is the largest magnitude / 127; a number is the nearest
 * whole multiple of it, ties to even, at most 127 in magnitude. A block whose scale is 0 in f32 is all 0. A
 * block with an infinity or a NaN cannot be stored: its scale is NaN, so that all of it reads as NaN and the
 * fault shows. All of this has the same bits on every processor.
 */
#ifndef TIDE_ROWS_H
#define TIDE_ROWS_H

#include "rt/dtype.h"

/* Converts a row on the calling thread, or copies it if the types are the same. i32 can only be copied. */
void tide_rows_convert_here(void *to, enum tide_dtype to_type, const void *from, enum tide_dtype from_type,
                            int64_t columns);

/* to[i] = a[i] + b[i], in f32 or bf16, on all threads. to may be a. */
void tide_rows_add(void *to, const void *a, const void *b, enum tide_dtype dtype, int64_t count);

/* sums[j] (+)= the sum over rows of x[i][j]: always added in the order of the rows. */
void tide_rows_sum(float *sums, int adds, const void *x, enum tide_dtype dtype, int64_t rows,
                   int64_t columns);

/* The largest number, NaN aside, on the calling thread. */
float tide_rows_largest(const float *x, int64_t count);

#endif
