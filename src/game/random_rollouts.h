/*
 * random_rollouts.h - plain Monte Carlo: a position is worth what random games from it come to.
 *
 * Moves are all alike to it (logits 0). With it tide_search_run is the plain MCTS that nets are measured
 * against. With 1,000 rollouts a move it plays Connect Four best at an exploration of about 2.5.
 */
#ifndef TIDE_RANDOM_ROLLOUTS_H
#define TIDE_RANDOM_ROLLOUTS_H

#include "game/evaluator.h"

struct tide_rollouts {
    const struct tide_game *game; /* borrowed */
    struct tide_random random;
    int games; /* random games for each position, at least 1 */
};

/* Takes one position at a time. The rollouts are borrowed, and their random numbers drawn from: one thread.
 */
struct tide_evaluator tide_rollouts_evaluator(struct tide_rollouts *rollouts);

/* What one random game from a position comes to, for the side to move there: 1, 0 or -1. */
int tide_rollout(const struct tide_game *game, const struct tide_position *position,
                 struct tide_random *random);

#endif
