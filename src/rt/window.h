/*
 * window.h - 3x3 windows of boards whose cells are rows of a tensor: board after board, line by line.
 *
 * The places of a window are numbered from the upper left, line by line. Cells beyond the edge of a board
 * count as 0.
 */
#ifndef TIDE_WINDOW_H
#define TIDE_WINDOW_H

#include <stdint.h>

enum { TIDE_WINDOW_SIDE = 3, TIDE_WINDOW = TIDE_WINDOW_SIDE * TIDE_WINDOW_SIDE };

struct tide_board {
    int64_t columns, rows;
};

/* Returns the tensor row at a place of the window around `row`; -1: beyond the edge. In the window of the
 * returned row, `row` is at TIDE_WINDOW - 1 - place. */
static inline int64_t tide_board_neighbour(const struct tide_board *board, int64_t row, int place)
{
    int64_t cell = row % (board->columns * board->rows), down = place / TIDE_WINDOW_SIDE - 1,
            right = place % TIDE_WINDOW_SIDE - 1, y = cell / board->columns + down,
            x = cell % board->columns + right;
    if (y < 0 || y >= board->rows || x < 0 || x >= board->columns)
        return -1;
    return row + down * board->columns + right;
}

#endif
