/*
 * opening.h - how the games of a match begin: with random stones that leave both sides about even.
 *
 * In Gomoku the first player wins, and most random openings favour one side, too. Two good players split
 * every pair of games from such an opening, so the pair says nothing about them. So several openings are
 * drawn, and the one that both players consider closest to even is taken.
 */
#ifndef TIDE_OPENING_H
#define TIDE_OPENING_H

#include "game/evaluator.h"

enum {
    TIDE_OPENINGS = 32,     /* drawn for each choice */
    TIDE_OPENING_MOVES = 6, /* the most moves of an opening */
};

/* Draws random stones: those of each side in a square of its own size in the middle of the board, so that
 * either side may be ahead. They are too few for any side to complete a line with one more. A function of its
 * arguments. Returns how many; ret_moves has them in order. */
int tide_opening_draw(const struct tide_game *game, uint64_t seed, uint64_t number, uint64_t draw,
                      uint16_t ret_moves[TIDE_OPENING_MOVES], struct tide_position *ret_position);

/* Work memory for evaluation: `most` positions and values, and the logits of all moves for each. */
struct tide_opening_room {
    struct tide_position *positions;
    float *logits, *values;
    int64_t most; /* at least 1 */
};

/* Chooses from TIDE_OPENINGS draws the one whose value, the mean of two evaluators, is nearest to 0; of
 * equals the first. The order of the evaluators does not matter. -1: one of them failed. */
int tide_opening_choose(const struct tide_game *game, const struct tide_evaluator *const evaluators[2],
                        uint64_t seed, uint64_t number, const struct tide_opening_room *room,
                        struct tide_position *ret_position);

#endif
