/*
 * matmul.h - matrix products, in the fastest way on this processor (tile_products.h, processor.h).
 *
 * tide_matmul_scratch() returns the scratch that a product needs -> tide_matmul() as often as needed. The
 * caller owns the scratch memory; nothing is allocated. Scratch depends on the sizes alone, not on what is
 * added.
 */
#ifndef TIDE_MATMUL_H
#define TIDE_MATMUL_H

#include "rt/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* c (m, n) = op(a) (m, k) op(b) (k, n) [+ bias (n)] [+ c or another matrix], with optional ReLU. Strides are
 * those of rows in memory: in numbers, but for TIDE_I8 in bytes (tide_row_bytes of the whole row); a TIDE_I8
 * operand must begin at the first column of a row. */
struct tide_product {
    int64_t m, n, k;
    int64_t a_stride, b_stride, c_stride;
    bool a_transposed, b_transposed; /* a is stored as (k, m), b as (n, k) */
    bool relu;
    enum tide_dtype from, to;       /* types that are multiplied; of c. The bias is f32. */
    enum tide_dtype a_from, b_from; /* types of a and b in memory: rounded or widened to `from`; for TIDE_I8,
                                       the numbers as f32 */
};

/* The usual case: rows without gaps, operands stored in the type that is multiplied. */
struct tide_product tide_product(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                                 enum tide_dtype from, enum tide_dtype to);

/* Sets the types of a and b in memory, in rows without gaps. */
void tide_product_stored(struct tide_product *product, enum tide_dtype a_from, enum tide_dtype b_from);

/* A name for people: what products of that type run in. */
const char *tide_matmul_name(enum tide_dtype from);

size_t tide_matmul_scratch(const struct tide_product *product);

struct tide_operands {
    const void *a, *b;
    const float *bias; /* NULL: none */
    void *c;
    const void *added; /* stored like c, and may be c; NULL: nothing is added */
};

/* scratch is 64-byte aligned. */
void tide_matmul(const struct tide_product *product, const struct tide_operands *operands, void *scratch);

/* Floating-point operations per second of one large product with these threads: the best of a few tries,
 * which together take tens of milliseconds and 10 MiB (a smaller product if it is slow). NAN if unknown. */
double tide_matmul_peak(enum tide_dtype dtype);

#endif
