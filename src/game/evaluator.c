/* evaluator.c - searches one game with one evaluator. */
#include "game/evaluator.h"

#include "base/check.h"
#include "base/clock.h"

/* Offsets of the parts of a workspace, each a multiple of 64. */
struct parts {
    size_t leaves, positions, logits, values, end;
};

static size_t after(size_t from, size_t count, size_t bytes)
{
    return (from + count * bytes + 63) / 64 * 64;
}

static struct parts parts_of(const struct tide_game *game, int most)
{
    size_t n = (size_t)most;
    struct parts parts = {.leaves = 0};
    parts.positions = after(parts.leaves, n, sizeof(struct tide_leaf));
    parts.logits = after(parts.positions, n, sizeof(struct tide_position));
    parts.values = after(parts.logits, n * (size_t)game->moves, sizeof(float));
    parts.end = after(parts.values, n, sizeof(float));
    return parts;
}

size_t tide_search_workspace_bytes(const struct tide_game *game, int most)
{
    TIDE_CHECK(most, >=, 1);
    return parts_of(game, most).end;
}

struct batch {
    struct tide_search *search;
    const struct tide_evaluator *evaluator;
    struct tide_cache *cache;
    struct tide_leaf *leaves;
    struct tide_position *positions;
    float *logits, *values;
    int count;
};

/* Gives a leaf back at once if the cache has its evaluation. */
static bool give_known(struct batch *batch, const struct tide_leaf *leaf)
{
    float value;
    if (!batch->cache)
        return false;
    const uint16_t *priors = tide_cache_find(
        batch->cache, tide_cache_key(tide_search_game(batch->search), &leaf->position), &value);
    if (!priors)
        return false;
    tide_search_give_priors(batch->search, leaf, priors, value);
    return true;
}

/* Does up to `simulations` simulations: those that need no evaluator are done at once, the others wait in the
 * batch. Returns how many are done. */
static int64_t gather(struct batch *batch, int64_t simulations)
{
    int64_t done = 0;
    batch->count = 0;
    while (batch->count < batch->evaluator->most && done + batch->count < simulations) {
        struct tide_leaf *leaf = &batch->leaves[batch->count];
        enum tide_descent descent = tide_search_descend(batch->search, leaf);
        if (descent == TIDE_BUSY)
            break;
        if (descent == TIDE_BACKED_UP || give_known(batch, leaf)) {
            /* Stops after `most` simulations even if none needed the evaluator: the caller looks at the clock
             * then. */
            if (++done >= batch->evaluator->most && batch->count == 0)
                break;
            continue;
        }
        batch->positions[batch->count++] = leaf->position;
    }
    return done;
}

static int evaluate(struct batch *batch)
{
    const struct tide_game *game = tide_search_game(batch->search);
    const struct tide_evaluator *evaluator = batch->evaluator;
    if (evaluator->evaluate(evaluator->context, batch->positions, batch->count, batch->logits,
                            batch->values)) {
        for (int i = 0; i < batch->count; i++)
            tide_search_drop(batch->search, &batch->leaves[i]);
        return -1;
    }
    for (int i = 0; i < batch->count; i++) {
        uint16_t priors[TIDE_BOARD_CELLS];
        tide_search_priors(game, &batch->positions[i], batch->logits + (size_t)i * (size_t)game->moves,
                           priors);
        tide_search_give_priors(batch->search, &batch->leaves[i], priors, batch->values[i]);
        if (batch->cache)
            tide_cache_put(batch->cache, tide_cache_key(game, &batch->positions[i]), priors,
                           batch->values[i]);
    }
    return 0;
}

int tide_search_run(struct tide_search *search, const struct tide_evaluator *evaluator,
                    struct tide_cache *cache, int64_t simulations, int64_t deadline_ns, void *workspace)
{
    if (tide_search_root(search)->outcome != TIDE_PLAYING)
        return 0;
    struct parts parts = parts_of(tide_search_game(search), evaluator->most);
    char *memory = workspace;
    struct batch batch = {
        .search = search,
        .evaluator = evaluator,
        .cache = cache,
        .leaves = (void *)(memory + parts.leaves),
        .positions = (void *)(memory + parts.positions),
        .logits = (void *)(memory + parts.logits),
        .values = (void *)(memory + parts.values),
    };
    for (int64_t done = 0; done < simulations;) {
        done += gather(&batch, simulations - done);
        if (batch.count > 0 && evaluate(&batch))
            return -1;
        done += batch.count;
        if (deadline_ns && tide_clock_ns() >= deadline_ns)
            break;
    }
    return 0;
}
