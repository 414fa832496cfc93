/*
 * cache.h - evaluations by position, in memory of fixed bytes.
 *
 * The limit is the memory that it is given: it uses as much of that as whole entries fill, and never more. An
 * entry is a key, a value and a prior in 16 bits for each move. Two entries share a place; a third one
 * replaces the older.
 *
 * Any number of threads may look things up at once, while nobody puts or clears.
 */
#ifndef TIDE_CACHE_H
#define TIDE_CACHE_H

#include "game/game.h"

struct tide_cache;

/* Bytes of a cache that holds so many entries. */
size_t tide_cache_bytes(const struct tide_game *game, int64_t entries);

/* A cache in so many bytes of memory, which begins at a multiple of 64 and is zeros. NULL if they are too few
 * for one place. Lives in the memory; nothing to free. */
struct tide_cache *tide_cache_place(const struct tide_game *game, void *memory, size_t bytes);

/* Entries that it has room for. */
int64_t tide_cache_entries(const struct tide_cache *cache);

/* Forgets everything: values of other weights are worth nothing. */
void tide_cache_clear(struct tide_cache *cache);

/* What an evaluation is kept by: the stones and the last of them, for a net sees both. */
uint64_t tide_cache_key(const struct tide_game *game, const struct tide_position *position);

/* The priors of all moves as tide_search_give_priors takes them, or NULL. Borrowed, until the next put. */
const uint16_t *tide_cache_find(const struct tide_cache *cache, uint64_t key, float *ret_value);

void tide_cache_put(struct tide_cache *cache, uint64_t key, const uint16_t *priors, float value);

#endif
