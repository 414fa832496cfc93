/*
 * few.h - products of so few rows that most of their time goes into reading b: decoding, a row for each
 * sequence.
 *
 * b is read once, from one end to the other, and widened in registers; nothing of it is packed, and the sums
 * of all rows stay near. The order of k, and the instruction, are those of the same kind's tiles, so that a
 * row has the same bits in a product of eight rows and in one of a thousand. AMX can read b like that only if
 * k runs along its rows; else AVX-512 multiplies a few rows there, too, whose bits are then not those of
 * AMX's tiles, which add up in another order. Where a kind has neither (plain C), such products are done in
 * tiles.
 */
#ifndef TIDE_FEW_H
#define TIDE_FEW_H

#include "rt/cpu/tile_products.h"

/* Whether a product is of that sort: few rows, and of b more than stays in a cache near a thread. */
bool tide_few_fits(const struct tide_tile_kind *kind, const struct tide_product *product);

/* For the number of threads there is. */
size_t tide_few_scratch(const struct tide_tile_kind *kind, const struct tide_product *product);

/* scratch is 64-byte aligned. */
void tide_few_multiply(const struct tide_tile_kind *kind, const struct tide_product *product,
                       const struct tide_operands *operands, void *scratch);

#endif
