/*
 * tiles.h - large matrix products, in tiles that stay in registers, on processors with AVX-512.
 *
 * Both operands are packed into the caller's scratch first, the second one a few columns at a time, which are
 * then in the cache when they are multiplied; numbers are rounded to bf16 on the way. Each number of the
 * result is one sum in the order of k, cut where k alone says: how the rest of a product is cut, and how many
 * threads share it, changes no bit.
 */
#ifndef TIDE_TILES_H
#define TIDE_TILES_H

#include "rt/matmul.h"
#include "rt/due.h"

/* Whether this processor multiplies that type so. */
bool tide_tiles_can(enum tide_dtype from);

/* For the number of threads there is. */
size_t tide_tiles_scratch(const struct tide_product *product);

/* As tide_matmul_all. scratch is 64-byte aligned. due: an update of which it does some; NULL: none. */
void tide_tiles_multiply(const struct tide_matmul_call *calls, int count, void *scratch,
                         struct tide_due *due);

#endif
