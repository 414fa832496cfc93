/*
 * tile_products.h - matrix products, in tiles (tile.h) that threads share.
 *
 * All threads together pack the rows of a first. Then each thread takes some rows and one panel of columns at
 * a time. It packs the panel's columns of b itself, the next panel's while it multiplies the current one. A
 * thread with nothing left steals from the end of another's part. Operands that are small, or whose layout
 * suits the tiles, are read in place. Each number of the result is one sum in the order of k, split at places
 * that depend on k alone, so neither the thread nor the number of threads changes a bit.
 */
#ifndef TIDE_TILE_PRODUCTS_H
#define TIDE_TILE_PRODUCTS_H

#include "rt/cpu/matmul.h"
#include "rt/cpu/tile.h"

/* For the current number of threads. */
size_t tide_tiles_scratch(const struct tide_tile_kind *kind, const struct tide_product *product);

/* scratch is 64-byte aligned. */
void tide_tiles_multiply(const struct tide_tile_kind *kind, const struct tide_product *product,
                         const struct tide_operands *operands, void *scratch);

/* Returns how many threads are worth waking for that many floating-point operations. */
int tide_tiles_threads(double flops);

#endif
