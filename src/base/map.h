/*
 * map.h - from a 64-bit key to a 64-bit value, with a maximum number of entries.
 *
 * Open addressing; keys may be any value. tide_map_init -> put/get/remove -> tide_map_release.
 */
#ifndef TIDE_MAP_H
#define TIDE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_map_slot;

struct tide_map {
    struct tide_map_slot *slots;
    size_t slot_count; /* a power of two, or 0 */
    size_t count;      /* live entries */
    size_t used;       /* live entries and tombstones */
    size_t max_count;
};

void tide_map_init(struct tide_map *map, size_t max_count);
void tide_map_release(struct tide_map *map);
void tide_map_clear(struct tide_map *map);
size_t tide_map_bytes(const struct tide_map *map); /* that it holds */

/* 0, or -1 if full or out of memory, leaving the map as it was. */
int tide_map_put(struct tide_map *map, uint64_t key, uint64_t value);
bool tide_map_get(const struct tide_map *map, uint64_t key, uint64_t *ret_value); /* ret_value may be NULL */
bool tide_map_remove(struct tide_map *map, uint64_t key);

/* Hashes bytes to a key. Different bytes have different keys, as far as 64 bits allow. seed: TIDE_MAP_SEED,
 * or the key of the bytes before them. */
#define TIDE_MAP_SEED UINT64_C(0xcbf29ce484222325)
uint64_t tide_map_key(uint64_t seed, const void *data, size_t len);

/* The same for a text, without its NUL. */
uint64_t tide_map_text_key(const char *text);

/* Iterates: start with *cursor = 0; false at the end. Meanwhile nothing may be put, but entries already
 * returned may be removed. */
bool tide_map_next(const struct tide_map *map, size_t *cursor, uint64_t *ret_key, uint64_t *ret_value);

#endif
