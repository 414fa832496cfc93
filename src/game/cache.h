/*
 * cache.h - a cache of evaluations by position, in fixed memory.
 *
 * The limit is the memory that it is given: it uses as much as whole entries fill, and never more. An entry
 * is a key, a value and a prior in 16 bits for each move. Two entries share a place; a third replaces the
 * older.
 *
 * Any number of threads may look things up at once, while none puts or clears.
 */
#ifndef TIDE_CACHE_H
#define TIDE_CACHE_H

#include "game/game.h"

struct tide_cache;

/* Returns the bytes of a cache with that many entries. */
size_t tide_cache_bytes(const struct tide_game *game, int64_t entries);

/* Makes a cache in `bytes` bytes of zero memory, aligned to 64. NULL if they are too few for one place. It
 * lives in that memory; there is nothing to free. */
struct tide_cache *tide_cache_place(const struct tide_game *game, void *memory, size_t bytes);

/* Forgets everything, because the weights changed. */
void tide_cache_clear(struct tide_cache *cache);

/* The key of an evaluation: the stones and the last of them, because a net sees both. */
uint64_t tide_cache_key(const struct tide_game *game, const struct tide_position *position);

/* Returns the priors of all moves, for tide_search_give_priors, or NULL. Borrowed until the next put. */
const uint16_t *tide_cache_find(const struct tide_cache *cache, uint64_t key, float *ret_value);

void tide_cache_put(struct tide_cache *cache, uint64_t key, const uint16_t *priors, float value);

#endif
