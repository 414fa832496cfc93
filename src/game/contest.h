/*
 * contest.h - two evaluators play each other, and how much stronger one of them is.
 *
 * Games come in pairs: both of a pair begin with the same random moves, and each side has each colour once.
 * What happens in a game depends on its number and on the evaluators alone, so that games may be played in
 * any order, and by several threads that each have memory of their own.
 */
#ifndef TIDE_CONTEST_H
#define TIDE_CONTEST_H

#include "game/evaluator.h"

struct tide_contestant {
    struct tide_evaluator evaluator;
    struct tide_cache *cache; /* or NULL */
    struct tide_search_rule rule;
    int64_t simulations; /* a move */
};

struct tide_contest {
    const struct tide_game *game; /* borrowed */
    struct tide_contestant sides[2];
    int opening; /* random moves before they play: none ends the game or lets the next one do so */
    uint64_t seed;
};

/* Bytes of memory that a game needs, beginning at a multiple of 64. */
size_t tide_contest_bytes(const struct tide_contest *contest);

/* Plays game number `number`, from 0. ret_result: 1 if sides[0] won, 0 a draw, -1. ret_end, which may be
 * NULL: how it ended. Returns -1 if an evaluator failed. */
int tide_contest_play(const struct tide_contest *contest, int number, void *memory, int *ret_result,
                      struct tide_position *ret_end);

/* What results say. Elo is what the score comes to in the usual scale (400 points are ten to one); low and
 * high are the ends of the 95 % interval, Wilson's of the score. Draws are half won and half lost; they make
 * the truth vary less than the interval says, never more. A score of all or nothing counts as if half of one
 * more game had gone the other way, so that all numbers are finite. */
struct tide_rating {
    double score;          /* from 0 to 1 */
    double elo, low, high; /* of the first side over the other */
};

/* At least one game. */
struct tide_rating tide_contest_rate(int64_t won, int64_t drawn, int64_t lost);

#endif
