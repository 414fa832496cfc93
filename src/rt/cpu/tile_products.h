/*
 * tile_products.h - matrix products, in tiles (tile.h) that threads share out among themselves.
 *
 * Rows of a are packed first, by all threads together; then each thread takes some rows and a panel of
 * columns at a time, for which it packs the columns of b itself, the next ones while it multiplies these. A
 * thread that has nothing left takes from the end of another's part. Operands that are small, or whose layout
 * suits the tiles, are read where they are. Each number of the result is one sum in the order of k, cut where
 * k alone says: who computes it, and how many threads there are, changes no bit.
 */
#ifndef TIDE_TILE_PRODUCTS_H
#define TIDE_TILE_PRODUCTS_H

#include "rt/cpu/due.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/tile.h"

/* For the number of threads there is. */
size_t tide_tiles_scratch(const struct tide_tile_kind *kind, const struct tide_product *product);

/* scratch is 64-byte aligned. due: an update of which it does some; NULL: none. */
void tide_tiles_multiply(const struct tide_tile_kind *kind, const struct tide_product *product,
                         const struct tide_operands *operands, void *scratch, struct tide_due *due);

/* Threads that are worth waking for so many floating-point operations. */
int tide_tiles_threads(double flops);

#endif
