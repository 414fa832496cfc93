/*
 * window_products.h - products of the windows of boards (rt/window.h), read in place, in tiles (tile.h).
 *
 * The window of a cell is a row of 9 x channels numbers, and c (cells, n) = windows x b (9 channels, n) is a
 * convolution. The rows of this matrix overlap in memory, so nothing is copied. A tile takes cells that have
 * the same neighbours, from anywhere on several boards, and only those places of k that are on the board:
 * nothing beyond an edge is multiplied. Left-over cells, too few of a sort to fill a tile, share tiles; their
 * windows are gathered, with zeros.
 *
 * The other product, c (9 channels, n) = windows^T x b (cells, n), sums over all cells: the gradient of a
 * convolution's weight. There a tile is some channels of one place.
 *
 * Each number is one sum in the order of k, so neither threads nor the other boards change a bit.
 */
#ifndef TIDE_WINDOW_PRODUCTS_H
#define TIDE_WINDOW_PRODUCTS_H

#include "rt/cpu/tile_products.h"
#include "rt/window.h"

struct tide_windows {
    struct tide_board board;
    int64_t boards, channels, n;
    bool transposed; /* the other product */
    bool relu;
    enum tide_dtype a_from, b_from, to; /* of a, b and c in memory */
};

/* True if that kind can read them in place: it multiplies the type of a, and a cell's numbers are whole cells
 * of the product. */
bool tide_windows_fit(const struct tide_tile_kind *kind, const struct tide_windows *windows);

/* For the current number of threads. */
size_t tide_windows_scratch(const struct tide_tile_kind *kind, const struct tide_windows *windows);

/* scratch is 64-byte aligned. */
void tide_windows_multiply(const struct tide_tile_kind *kind, const struct tide_windows *windows,
                           const struct tide_operands *operands, void *scratch);

#endif
