/*
 * random_rollouts.h - plain Monte Carlo: the value of a position is the result of random games from it.
 */
#ifndef TIDE_RANDOM_ROLLOUTS_H
#define TIDE_RANDOM_ROLLOUTS_H

#include "game/evaluator.h"

struct tide_rollouts {
    const struct tide_game *game; /* borrowed */
    struct tide_random random;
};

/* Returns the result of one random game from a position, for the side to move there: 1, 0 or -1. */
int tide_rollout(const struct tide_game *game, const struct tide_position *position,
                 struct tide_random *random);

#endif
