/* cache.c - a place holds two entries; a new one replaces the older. */
#include "game/cache.h"

#include "base/check.h"
#include "base/random.h"

#include <string.h>

enum { HEADER = 64, WAYS = 2 };

struct entry {
    uint64_t key;
    uint64_t put; /* the number of the put, from 1; 0: never */
    float value;
    uint16_t priors[];
};

struct tide_cache {
    size_t entry_bytes;
    uint64_t places;
    uint64_t puts;
    uint64_t forgotten; /* puts up to this one are invalid */
    int moves;
};

_Static_assert(sizeof(struct tide_cache) <= HEADER, "what comes before the entries");

static size_t entry_bytes(const struct tide_game *game)
{
    return (offsetof(struct entry, priors) + (size_t)game->moves * sizeof(uint16_t) + 7) / 8 * 8;
}

size_t tide_cache_bytes(const struct tide_game *game, int64_t entries)
{
    return HEADER + (size_t)(entries + WAYS - 1) / WAYS * WAYS * entry_bytes(game);
}

struct tide_cache *tide_cache_place(const struct tide_game *game, void *memory, size_t bytes)
{
    TIDE_CHECK((uintptr_t)memory % 64, ==, 0);
    if (bytes < tide_cache_bytes(game, 1))
        return NULL;
    struct tide_cache *cache = memory;
    *cache = (struct tide_cache){.entry_bytes = entry_bytes(game), .moves = game->moves};
    cache->places = (bytes - HEADER) / (WAYS * cache->entry_bytes);
    return cache;
}

void tide_cache_clear(struct tide_cache *cache)
{
    cache->forgotten = cache->puts;
}

uint64_t tide_cache_key(const struct tide_game *game, const struct tide_position *position)
{
    return tide_random_at(tide_position_key(game, position), (uint64_t)(position->last + 1), 0);
}

/* Returns the first entry of a key's place. */
static struct entry *place_of(const struct tide_cache *cache, uint64_t key)
{
    uint64_t place = (uint64_t)((unsigned __int128)key * cache->places >> 64);
    return (struct entry *)((char *)cache + HEADER + place * WAYS * cache->entry_bytes);
}

static struct entry *next_of(const struct tide_cache *cache, const struct entry *entry)
{
    return (struct entry *)((char *)entry + cache->entry_bytes);
}

const uint16_t *tide_cache_find(const struct tide_cache *cache, uint64_t key, float *ret_value)
{
    const struct entry *entry = place_of(cache, key);
    for (int i = 0; i < WAYS; i++, entry = next_of(cache, entry))
        if (entry->key == key && entry->put > cache->forgotten) {
            *ret_value = entry->value;
            return entry->priors;
        }
    return NULL;
}

void tide_cache_put(struct tide_cache *cache, uint64_t key, const uint16_t *priors, float value)
{
    struct entry *entry = place_of(cache, key), *other = next_of(cache, entry);
    if (entry->key != key && (other->key == key || other->put < entry->put))
        entry = other;
    entry->key = key;
    entry->put = ++cache->puts;
    entry->value = value;
    memcpy(entry->priors, priors, (size_t)cache->moves * sizeof *priors);
}
