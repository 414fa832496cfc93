/*
 * few.h - products of so few rows that reading b takes most of the time: decoding, one row per sequence.
 *
 * b is read once, from start to end, and widened in registers. It is not packed, and the sums of all rows
 * stay in the cache. The order of k and the instruction are those of the same kind's tiles, so a row has the
 * same bits in a product of eight rows as in one of a thousand. There is one exception: AMX can read b this
 * way only if k runs along its rows; else AVX-512 multiplies the few rows, and its bits differ from those of
 * AMX's tiles, which add in another order. A kind without such functions (plain C) uses tiles.
 */
#ifndef TIDE_FEW_H
#define TIDE_FEW_H

#include "rt/cpu/tile_products.h"

/* True for such a product: few rows, and b larger than a core's own cache. */
bool tide_few_fits(const struct tide_tile_kind *kind, const struct tide_product *product);

/* For the current number of threads. */
size_t tide_few_scratch(const struct tide_tile_kind *kind, const struct tide_product *product);

/* scratch is 64-byte aligned. */
void tide_few_multiply(const struct tide_tile_kind *kind, const struct tide_product *product,
                       const struct tide_operands *operands, void *scratch);

#endif
