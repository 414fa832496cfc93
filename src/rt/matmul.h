/*
 * matmul.h - matrix products, prepared before they run.
 *
 * tide_matmuls_new -> tide_matmuls_want() for every product that will run -> tide_matmuls_scratch() says what
 * each needs beside its operands -> tide_matmul() as often as needed -> _free.
 *
 * Large products run in tiles.h where the processor can, others in oneDNN, which is loaded when the first of
 * these is made (observing needs none of it), or in plain C where it is not installed or not wanted. Scratch
 * memory is always the caller's.
 */
#ifndef TIDE_MATMUL_H
#define TIDE_MATMUL_H

#include "base/err.h"
#include "rt/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* c (m, n) = op(a) (m, k) op(b) (k, n) [+ bias (n)] [+ c]. Strides are those of rows as they lie in memory.
 */
struct tide_product {
    int64_t m, n, k;
    int64_t a_stride, b_stride, c_stride;
    bool a_transposed, b_transposed; /* a lies as (k, m), b as (n, k) */
    bool adds, has_bias;
    enum tide_dtype from, to;       /* what is multiplied; of c. The bias is f32. */
    enum tide_dtype a_from, b_from; /* of a and b in memory: `from`, or f32 without gaps, which is rounded */
};

/* The usual: rows without gaps, operands as they are multiplied. */
struct tide_product tide_product(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                                 enum tide_dtype from, enum tide_dtype to);

/* With its operands. bias may be NULL only if has_bias is false. */
struct tide_matmul_call {
    struct tide_product product;
    const void *a, *b;
    const float *bias;
    void *c;
    double *squares; /* NULL, or where the sum of the squares of c goes, which is f32 then */
};

struct tide_matmuls;
struct tide_due;

/* What products run in: the best there is; oneDNN, if it is installed; plain C. */
enum tide_matmul_kind { TIDE_MATMUL_BEST, TIDE_MATMUL_LIBRARY, TIDE_MATMUL_PLAIN };

/* Caller frees. */
int tide_matmuls_new(enum tide_matmul_kind kind, struct tide_matmuls **ret_matmuls, struct tide_err *err);
void tide_matmuls_free(struct tide_matmuls *matmuls);

/* Whether products run in anything but plain C. */
bool tide_matmuls_fast(const struct tide_matmuls *matmuls);

/* What they run in, for people. */
const char *tide_matmuls_name(const struct tide_matmuls *matmuls);

/* Whether they can be of that type. For bf16 oneDNN needs AVX-512. */
bool tide_matmuls_can(const struct tide_matmuls *matmuls, enum tide_dtype dtype);

int tide_matmuls_want(struct tide_matmuls *matmuls, const struct tide_product *product, struct tide_err *err);

/* Of a product that was wanted. */
size_t tide_matmuls_scratch(const struct tide_matmuls *matmuls, const struct tide_product *product);

/* Products of which none reads or writes what another writes: threads go on from one to the next without
 * waiting for each other. Of the last they take parts over from each other if it has few rows, so it is best
 * the one with the fewest. scratch is that of the one that needs most; at most TIDE_MATMULS_AT_ONCE. */
enum { TIDE_MATMULS_AT_ONCE = 2 };
void tide_matmul_all(struct tide_matmuls *matmuls, const struct tide_matmul_call *calls, int count,
                     void *scratch);

void tide_matmul(struct tide_matmuls *matmuls, const struct tide_product *product, const void *a,
                 const void *b, const float *bias, void *c, void *scratch);

/* An update (due.h) of which products do some while they run; NULL: none. It must outlive them, or
 * another be given. */
void tide_matmuls_meanwhile(struct tide_matmuls *matmuls, struct tide_due *due);
struct tide_due *tide_matmuls_due(const struct tide_matmuls *matmuls);

#endif
