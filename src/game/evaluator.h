/*
 * evaluator.h - what says how good positions are, and a search that asks it.
 *
 * A net is an evaluator; so is a random game to the end (random_rollouts.h).
 */
#ifndef TIDE_EVALUATOR_H
#define TIDE_EVALUATOR_H

#include "game/cache.h"
#include "game/search.h"

struct tide_evaluator {
    int most; /* positions that it takes at once, at least 1 */
    /* Values count positions (1 .. most), none of which is the end of a game: logits of all moves for each,
     * one position after the other, and a value from -1 to 1 for the side to move. Not 0: it failed, and its
     * context says why. */
    int (*evaluate)(void *context, const struct tide_position *positions, int count, float *logits,
                    float *values);
    void *context;
};

/* Bytes that tide_search_run needs besides the search, beginning at a multiple of 64, for up to so many
 * positions at once. */
size_t tide_search_workspace_bytes(const struct tide_game *game, int most);

/* So many more simulations, or until the clock (tide_clock_ns) reads deadline_ns if that is not 0; at least
 * one batch. Leaves go to the evaluator in batches of up to evaluator->most. What the cache has (it may be
 * NULL) is not asked again; found or asked, the tree is the same. most is at most that of the workspace.
 * Returns 0, or -1 if the evaluator failed; then the search goes on from where it was.
 *
 * Nothing is searched where the game has ended. */
int tide_search_run(struct tide_search *search, const struct tide_evaluator *evaluator,
                    struct tide_cache *cache, int64_t simulations, int64_t deadline_ns, void *workspace);

#endif
