/*
 * winograd.h - 3x3 convolutions with a third of the multiplications: Winograd's F(4x4, 3x3).
 *
 * A patch is 4x4 cells of a board; its window is the 6x6 cells it depends on. The window and the 3x3 weight
 * are each represented by the values of polynomials at six points in each direction. At each of the 36 pairs
 * of points, one product over channels is left: (patches, I) x (I, O). The patch is interpolated from its
 * sums.
 *
 * The points are 0, a, -a, b, -b and infinity. Powers of a and b are exact in f32. With 5/8 and 3/2 the error
 * is about twice that of a direct sum; with 1 and 2, as in the papers, it is four times that.
 *
 * The points of a weight (9 I, O) are stored as products read them: in panels of 48 columns, padded with
 * zeros after the last, each panel (36, I, 48).
 */
#ifndef TIDE_WINOGRAD_H
#define TIDE_WINOGRAD_H

#include "rt/window.h"

enum { TIDE_PATCH_SIDE = 4, TIDE_PATCH = TIDE_PATCH_SIDE * TIDE_PATCH_SIDE };
enum { TIDE_POINTS_SIDE = 6, TIDE_POINTS = TIDE_POINTS_SIDE * TIDE_POINTS_SIDE };
enum { TIDE_PANEL = 48 };
enum { TIDE_POINTS_STEP = 16 }; /* channels are a multiple of this */

#define TIDE_POINT_A (5.0 / 8)
#define TIDE_POINT_B (3.0 / 2)

/* The transforms in one direction: from window and weight to points, and from points to the patch. */
extern const double tide_points_of_window[TIDE_POINTS_SIDE][TIDE_POINTS_SIDE],
    tide_points_of_weight[TIDE_POINTS_SIDE][TIDE_WINDOW_SIDE],
    tide_points_of_patch[TIDE_PATCH_SIDE][TIDE_POINTS_SIDE];

static inline int64_t tide_panels(int64_t columns)
{
    return (columns + TIDE_PANEL - 1) / TIDE_PANEL;
}

/* Returns the number of patches across that many columns, or down that many rows. */
static inline int64_t tide_patches(int64_t cells)
{
    return (cells + TIDE_PATCH_SIDE - 1) / TIDE_PATCH_SIDE;
}

/* Returns the tensor row `down` and `right` cells from the upper left cell of a patch; -1: beyond an edge.
 * Patches are numbered like cells. */
static inline int64_t tide_patch_cell(const struct tide_board *board, int64_t patch, int64_t down,
                                      int64_t right)
{
    int64_t across = tide_patches(board->columns), each = across * tide_patches(board->rows),
            y = patch % each / across * TIDE_PATCH_SIDE + down, x = patch % across * TIDE_PATCH_SIDE + right;
    if (y < 0 || y >= board->rows || x < 0 || x >= board->columns)
        return -1;
    return (patch / each * board->rows + y) * board->columns + x;
}

#endif
