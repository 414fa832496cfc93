/*
 * window_products.h - products of the windows of boards (rt/window.h), read where they lie, in tiles
 * (tile.h).
 *
 * The window of a cell is a row of 9 x channels numbers, and c (cells, n) = windows x b (9 channels, n) is a
 * convolution. The rows of such a matrix overlap in memory, so that nothing is copied: a tile takes cells
 * that have the same neighbours, wherever they are on some boards, and of k only the places that are there.
 * Nothing is multiplied that is beyond an edge. Cells that are left over, fewer than a tile of a sort, share
 * tiles; their windows are gathered, with zeros.
 *
 * The other product, c (9 channels, n) = windows^T x b (cells, n), sums over all cells: what a convolution's
 * weight wants for its gradient. There a tile is some channels of one place.
 *
 * Each number is one sum, in the order of k: threads change no bit, nor do the boards beside.
 */
#ifndef TIDE_WINDOW_PRODUCTS_H
#define TIDE_WINDOW_PRODUCTS_H

#include "rt/cpu/tile_products.h"
#include "rt/window.h"

struct tide_windows {
    struct tide_board board;
    int64_t boards, channels, n;
    bool transposed; /* the other product */
    bool adds, has_bias, relu;
    enum tide_dtype a_from, b_from, to; /* of a, b and c in memory */
};

/* Whether that kind can read them where they lie: it multiplies what a is stored in, and a cell's numbers are
 * whole cells of the product. */
bool tide_windows_fit(const struct tide_tile_kind *kind, const struct tide_windows *windows);

/* For the number of threads there is. */
size_t tide_windows_scratch(const struct tide_tile_kind *kind, const struct tide_windows *windows);

/* scratch is 64-byte aligned. */
void tide_windows_multiply(const struct tide_tile_kind *kind, const struct tide_windows *windows,
                           const struct tide_operands *operands, void *scratch);

#endif
