/*
 * rows.h - rows of numbers between their types, for operators whose operands may be f32 or bf16.
 */
#ifndef TIDE_ROWS_H
#define TIDE_ROWS_H

#include "rt/dtype.h"

/* Copies or converts, on all threads; the same type copies. */
void tide_rows_convert(void *to, enum tide_dtype to_type, const void *from, enum tide_dtype from_type,
                       int64_t count);

/* The same on the calling thread. */
void tide_rows_convert_here(void *to, enum tide_dtype to_type, const void *from, enum tide_dtype from_type,
                            int64_t count);

/* sums[j] (+)= the sum over rows of x[i][j]: always added in the order of the rows. */
void tide_rows_sum(float *sums, int adds, const void *x, enum tide_dtype dtype, int64_t rows,
                   int64_t columns);

#endif
