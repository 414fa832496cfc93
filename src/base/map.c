#include "base/map.h"

#include <stdlib.h>
#include <string.h>

enum slot_state { SLOT_EMPTY, SLOT_LIVE, SLOT_DEAD };

struct tide_map_slot {
    uint64_t key;
    uint64_t value;
    enum slot_state state;
};

void tide_map_init(struct tide_map *map, size_t max_count)
{
    *map = (struct tide_map){.max_count = max_count};
}

void tide_map_release(struct tide_map *map)
{
    free(map->slots);
    *map = (struct tide_map){.max_count = map->max_count};
}

void tide_map_clear(struct tide_map *map)
{
    if (map->slots)
        memset(map->slots, 0, map->slot_count * sizeof *map->slots);
    map->count = map->used = 0;
}

size_t tide_map_bytes(const struct tide_map *map)
{
    return map->slot_count * sizeof *map->slots;
}

static size_t home_of(const struct tide_map *map, uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15u;
    return (size_t)(key >> 20) & (map->slot_count - 1);
}

static struct tide_map_slot *find(const struct tide_map *map, uint64_t key)
{
    if (!map->slot_count)
        return NULL;
    for (size_t i = home_of(map, key);; i = (i + 1) & (map->slot_count - 1)) {
        struct tide_map_slot *slot = &map->slots[i];
        if (slot->state == SLOT_EMPTY)
            return NULL;
        if (slot->state == SLOT_LIVE && slot->key == key)
            return slot;
    }
}

static void insert_new(struct tide_map *map, uint64_t key, uint64_t value)
{
    size_t i = home_of(map, key);
    while (map->slots[i].state != SLOT_EMPTY)
        i = (i + 1) & (map->slot_count - 1);
    map->slots[i] = (struct tide_map_slot){key, value, SLOT_LIVE};
    map->count++;
    map->used++;
}

static int rebuild(struct tide_map *map, size_t slot_count)
{
    struct tide_map bigger = {.max_count = map->max_count, .slot_count = slot_count};
    bigger.slots = calloc(slot_count, sizeof *bigger.slots);
    if (!bigger.slots)
        return -1;
    for (size_t i = 0; i < map->slot_count; i++)
        if (map->slots[i].state == SLOT_LIVE)
            insert_new(&bigger, map->slots[i].key, map->slots[i].value);
    free(map->slots);
    *map = bigger;
    return 0;
}

int tide_map_put(struct tide_map *map, uint64_t key, uint64_t value)
{
    struct tide_map_slot *slot = find(map, key);
    if (slot) {
        slot->value = value;
        return 0;
    }
    if (map->count >= map->max_count)
        return -1;
    if ((map->used + 1) * 4 > map->slot_count * 3) {
        size_t wanted = map->slot_count ? map->slot_count : 16;
        while ((map->count + 1) * 2 > wanted)
            wanted *= 2;
        if (rebuild(map, wanted))
            return -1;
    }
    insert_new(map, key, value);
    return 0;
}

bool tide_map_get(const struct tide_map *map, uint64_t key, uint64_t *ret_value)
{
    const struct tide_map_slot *slot = find(map, key);
    if (slot && ret_value)
        *ret_value = slot->value;
    return slot != NULL;
}

bool tide_map_remove(struct tide_map *map, uint64_t key)
{
    struct tide_map_slot *slot = find(map, key);
    if (!slot)
        return false;
    slot->state = SLOT_DEAD;
    map->count--;
    return true;
}

bool tide_map_next(const struct tide_map *map, size_t *cursor, uint64_t *ret_key, uint64_t *ret_value)
{
    for (; *cursor < map->slot_count; (*cursor)++) {
        const struct tide_map_slot *slot = &map->slots[*cursor];
        if (slot->state != SLOT_LIVE)
            continue;
        *ret_key = slot->key;
        *ret_value = slot->value;
        (*cursor)++;
        return true;
    }
    return false;
}

/* FNV-1a. */
uint64_t tide_map_key(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        seed = (seed ^ p[i]) * UINT64_C(0x100000001b3);
    return seed;
}

uint64_t tide_map_text_key(const char *text)
{
    return tide_map_key(TIDE_MAP_SEED, text, strlen(text));
}
