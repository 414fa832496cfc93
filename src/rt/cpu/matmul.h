/*
 * matmul.h - matrix products, in the best way that this processor has (tile_products.h, processor.h).
 *
 * tide_matmuls_scratch() says what a product needs beside its operands -> tide_matmul() as often as needed.
 * Scratch memory is the caller's; nothing is allocated.
 */
#ifndef TIDE_MATMUL_H
#define TIDE_MATMUL_H

#include "rt/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* c (m, n) = op(a) (m, k) op(b) (k, n) [+ bias (n)] [+ c, or something else], of which ReLU may be taken.
 * Strides are those of rows as they lie in memory: in numbers, but in bytes where numbers are TIDE_I8
 * (tide_row_bytes of the whole row), and then the operand begins at the first column of a row. */
struct tide_product {
    int64_t m, n, k;
    int64_t a_stride, b_stride, c_stride;
    bool a_transposed, b_transposed; /* a lies as (k, m), b as (n, k) */
    bool adds, has_bias;
    bool relu;
    enum tide_dtype from, to;       /* what is multiplied; of c. The bias is f32. */
    enum tide_dtype a_from, b_from; /* of a and b in memory: rounded or widened to `from`; of TIDE_I8, the
                                     * numbers as they are in f32 */
};

/* The usual: rows without gaps, operands as they are multiplied. */
struct tide_product tide_product(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                                 enum tide_dtype from, enum tide_dtype to);

/* Says in what types a and b lie in memory, in rows without gaps. */
void tide_product_stored(struct tide_product *product, enum tide_dtype a_from, enum tide_dtype b_from);

struct tide_due;

/* How products are done. */
struct tide_matmuls {
    bool is_reference;    /* in plain C, sums in f64, which takes a hundred times as long */
    struct tide_due *due; /* an update of which products do some while they run; NULL: none */
};

/* What products of that type run in, for people. */
const char *tide_matmuls_name(const struct tide_matmuls *matmuls, enum tide_dtype from);

size_t tide_matmuls_scratch(const struct tide_matmuls *matmuls, const struct tide_product *product);

struct tide_operands {
    const void *a, *b;
    const float *bias; /* may be NULL where there is none */
    void *c;
    const void *added; /* lies as c; NULL: c itself is, where the product adds */
};

/* scratch is 64-byte aligned. */
void tide_matmul_operands(const struct tide_matmuls *matmuls, const struct tide_product *product,
                          const struct tide_operands *operands, void *scratch);

/* The same where nothing else is added. */
void tide_matmul(const struct tide_matmuls *matmuls, const struct tide_product *product, const void *a,
                 const void *b, const float *bias, void *c, void *scratch);

#endif
