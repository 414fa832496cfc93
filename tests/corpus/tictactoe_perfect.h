/* tictactoe_perfect.h - tic-tac-toe solved by playing every game. */
#ifndef TICTACTOE_PERFECT_H
#define TICTACTOE_PERFECT_H

#include "game/game.h"

/* 1, 0 or -1 for the side to move (where a game has ended, -1 or 0). */
int tictactoe_perfect_result(const struct tide_game *game, const struct tide_position *position);

/* Cells that keep the result, as bits; 0 where the game has ended. */
unsigned tictactoe_perfect_best(const struct tide_game *game, const struct tide_position *position);

#endif
