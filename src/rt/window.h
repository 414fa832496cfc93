/*
 * window.h - 3x3 windows of boards, whose cells are rows of a tensor: board after board, line by line.
 *
 * A place of a window is numbered from its upper left one, line by line. Beyond the edge of a board there is
 * nothing, which counts as 0.
 */
#ifndef TIDE_WINDOW_H
#define TIDE_WINDOW_H

#include <stdint.h>

enum { TIDE_WINDOW_SIDE = 3, TIDE_WINDOW = TIDE_WINDOW_SIDE * TIDE_WINDOW_SIDE };

struct tide_board {
    int64_t columns, rows;
};

/* The row of the tensor at a place of the window around a row; -1: beyond the edge. The other way round, the
 * row is at place TIDE_WINDOW - 1 - place of that one's window. */
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
