/*
 * gomoku_tactics.h - Gomoku positions in which a few moves are right and all others lose: the side to move
 * completes a line at once, or must take the one cell where the other side would.
 */
#ifndef GOMOKU_TACTICS_H
#define GOMOKU_TACTICS_H

#include "base/random.h"
#include "game/game.h"

enum gomoku_tactic_kind { GOMOKU_WINS, GOMOKU_BLOCKS };

struct gomoku_tactic {
    struct tide_position position;
    enum gomoku_tactic_kind kind;
    uint64_t right[TIDE_BOARD_WORDS]; /* the moves */
};

/* Number `number` of the suite of a seed: always the same. Even ones are won, odd ones blocked. Games are
 * random, of moves near other stones. */
struct gomoku_tactic gomoku_tactic_make(const struct tide_game *game, uint64_t seed, uint64_t number);

#endif
