/*
 * random_rollouts.h - plain Monte Carlo: a position is worth what random games from it come to.
 */
#ifndef TIDE_RANDOM_ROLLOUTS_H
#define TIDE_RANDOM_ROLLOUTS_H

#include "game/evaluator.h"

struct tide_rollouts {
    const struct tide_game *game; /* borrowed */
    struct tide_random random;
};

/* What one random game from a position comes to, for the side to move there: 1, 0 or -1. */
int tide_rollout(const struct tide_game *game, const struct tide_position *position,
                 struct tide_random *random);

#endif
