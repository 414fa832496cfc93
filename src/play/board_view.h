/*
 * board_view.h - draws a board, and what the program thinks of it, into cells.
 *
 * Pure: no terminal, no clock. tide_board_view_draw() works at every size: it leaves out what is next to the
 * board if there is no room for it; if there is none for the board, it says so.
 */
#ifndef TIDE_BOARD_VIEW_H
#define TIDE_BOARD_VIEW_H

#include "game/game.h"
#include "play/player.h"
#include "term/cells.h"

enum { TIDE_BOARD_THOUGHTS = 8 };

/* What is shown. Texts are escaped, "" if there is nothing to say; borrowed. */
struct tide_board_view {
    const struct tide_game *game;
    const struct tide_position *position;
    const char *names[2]; /* of the first player, X, and the other, O */
    int cursor;           /* a move; -1: not shown */
    bool thinks;
    int64_t simulations; /* of the last thinking */
    double seconds;
    int thinker; /* whose thoughts they are: 0 or 1 */
    struct tide_thought thoughts[TIDE_BOARD_THOUGHTS];
    int thought_count;
    const char *strength;
    const char *message; /* what just happened */
    bool is_trouble;     /* it is an error */
};

void tide_board_view_draw(const struct tide_board_view *view, struct tide_cells *cells);

/* Returns the move at a cell of the screen; -1: there is none. */
int tide_board_view_move_at(const struct tide_game *game, int row, int column);

#endif
