/*
 * opening.h - how the games of a match begin: with random stones that leave both sides about even.
 *
 * In Gomoku the first player wins, and one side wins from most random openings, too. Two good players share
 * every pair of games from such an opening, and the pair says nothing about them. So several openings are
 * drawn, and the one that both players value nearest to even is taken.
 */
#ifndef TIDE_OPENING_H
#define TIDE_OPENING_H

#include "game/evaluator.h"

enum {
    TIDE_OPENINGS = 32,     /* that are drawn for one */
    TIDE_OPENING_MOVES = 6, /* that one has at the most */
};

/* Random stones: those of each side in a square of its own size in the middle of the board, so that either
 * may be ahead. They are so few that no side needs but one more for a line. A function of its arguments.
 * Returns how many; ret_moves has them in order. */
int tide_opening_draw(const struct tide_game *game, uint64_t seed, uint64_t number, uint64_t draw,
                      uint16_t ret_moves[TIDE_OPENING_MOVES], struct tide_position *ret_position);

/* Where positions are valued: room for `most` of each, and of logits for all moves of each. */
struct tide_opening_room {
    struct tide_position *positions;
    float *logits, *values;
    int64_t most; /* at least 1 */
};

/* Of TIDE_OPENINGS draws the one whose value, the mean of what two evaluators say, is nearest to 0; of equals
 * the first. Which of the two is first does not matter. -1: one of them failed. */
int tide_opening_choose(const struct tide_game *game, const struct tide_evaluator *const evaluators[2],
                        uint64_t seed, uint64_t number, const struct tide_opening_room *room,
                        struct tide_position *ret_position);

#endif
