/*
 * evaluator.h - evaluates positions, and runs a search with an evaluator.
 *
 * A net is an evaluator; so is a random game to the end (random_rollouts.h).
 */
#ifndef TIDE_EVALUATOR_H
#define TIDE_EVALUATOR_H

#include "game/cache.h"
#include "game/search.h"

struct tide_evaluator {
    int most; /* positions at once, at least 1 */
    /* Evaluates count positions (1 .. most), in none of which the game has ended: logits of all moves for
     * each, position after position, and a value from -1 to 1 for the side to move. Not 0: it failed, and its
     * context says why. */
    int (*evaluate)(void *context, const struct tide_position *positions, int count, float *logits,
                    float *values);
    void *context;
};

/* Returns the bytes of tide_search_run's workspace, aligned to 64, for up to `most` positions at once. */
size_t tide_search_workspace_bytes(const struct tide_game *game, int most);

/* Does that many more simulations, or stops when the clock (tide_clock_ns) reaches deadline_ns, if that is
 * not 0; does at least one batch. Leaves go to the evaluator in batches of up to evaluator->most, which may
 * not exceed that of the workspace. Positions in the cache (may be NULL) are not evaluated again; the tree is
 * the same either way. Returns 0, or -1 if the evaluator failed; the search can then continue from where it
 * was.
 *
 * Does nothing if the game has ended. */
int tide_search_run(struct tide_search *search, const struct tide_evaluator *evaluator,
                    struct tide_cache *cache, int64_t simulations, int64_t deadline_ns, void *workspace);

#endif
