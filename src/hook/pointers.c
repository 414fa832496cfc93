/*
 * pointers.c - the map of sampled blocks (pointers.h).
 *
 * Open addressing with linear probing. A removal closes the gap by moving later entries back, so there are no
 * tombstones, and a shard that was full once is as fast as a new one after it has emptied.
 */
#include "hook/pointers.h"
#include "hook/latch.h"

#include "channel/heap.h"

_Static_assert(TIDE_HEAP_SITES <= 65536, "a site fits 16 bits");

enum { FIRST_SLOTS = 128, STICKY = 255 };

struct entry {
    uintptr_t key; /* 0: free */
    struct tide_pointers_block block;
};

struct shard {
    tide_latch latch;
    uint32_t slots, used;
    struct entry *entries;
    uint64_t reserved[5]; /* pads a shard to a cache line */
};

static TIDE_WIPED struct shard shards[TIDE_POINTERS_SHARDS];
TIDE_WIPED _Atomic uint8_t tide_pointers_filter[1 << TIDE_POINTERS_FILTER_BITS];
TIDE_WIPED _Atomic uint8_t tide_pointers_pages[1 << TIDE_POINTERS_PAGE_BITS];
struct tide_pointers_totals tide_pointers_totals;

int tide_pointers_init(void)
{
    return tide_wiped_declare(shards, sizeof shards) ||
                   tide_wiped_declare(tide_pointers_filter, sizeof tide_pointers_filter) ||
                   tide_wiped_declare(tide_pointers_pages, sizeof tide_pointers_pages) ||
                   tide_wiped_declare(&tide_pointers_totals, sizeof tide_pointers_totals)
               ? -1
               : 0;
}

static _Atomic uint8_t *filter_of(uintptr_t address)
{
    if (address & TIDE_POINTERS_POOL)
        return &tide_pointers_pages[tide_pointers_page_slot(address)];
    return &tide_pointers_filter[tide_pointers_filter_slot(address)];
}

/* A counter that reached its maximum stays there: the filter then always says "perhaps" for its blocks. */
static void count_change(uintptr_t address, int change)
{
    atomic_fetch_add_explicit(&tide_pointers_totals.count, (uint64_t)(int64_t)change, memory_order_relaxed);
    if (address & TIDE_POINTERS_POOL)
        atomic_fetch_add_explicit(&tide_pointers_totals.pooled, (uint64_t)(int64_t)change,
                                  memory_order_relaxed);
    _Atomic uint8_t *counter = filter_of(address);
    uint8_t old = atomic_load_explicit(counter, memory_order_relaxed);
    while (old != STICKY &&
           !atomic_compare_exchange_weak_explicit(counter, &old, (uint8_t)(old + change),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static uint64_t hash_of(uintptr_t key)
{
    uint64_t hash = (uint64_t)(key >> (key & TIDE_POINTERS_POOL ? 12 : 4)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static struct shard *shard_of(uint64_t hash)
{
    return &shards[hash >> 48 & (TIDE_POINTERS_SHARDS - 1)];
}

/* Returns the entry of the key, or the free entry where it would go. */
static struct entry *find(const struct shard *shard, uint64_t hash, uintptr_t key)
{
    uint32_t mask = shard->slots - 1, at = (uint32_t)hash & mask;
    while (shard->entries[at].key && shard->entries[at].key != key)
        at = (at + 1) & mask;
    return &shard->entries[at];
}

static int grow(struct shard *shard)
{
    uint32_t slots = shard->slots ? 2 * shard->slots : FIRST_SLOTS;
    if (slots > TIDE_POINTERS_SHARD_MOST)
        return -1;
    size_t bytes = slots * sizeof(struct entry), old_bytes = shard->slots * sizeof(struct entry);
    struct entry *entries = tide_wiped_map(bytes);
    if (!entries)
        return -1;
    struct shard bigger = {.slots = slots, .entries = entries};
    for (uint32_t i = 0; i < shard->slots; i++)
        if (shard->entries[i].key)
            *find(&bigger, hash_of(shard->entries[i].key), shard->entries[i].key) = shard->entries[i];
    if (shard->entries)
        tide_wiped_unmap(shard->entries, old_bytes);
    shard->entries = entries;
    shard->slots = slots;
    atomic_fetch_add_explicit(&tide_pointers_totals.bytes, bytes - old_bytes, memory_order_relaxed);
    return 0;
}

enum tide_pointers_result tide_pointers_add(const void *pointer, struct tide_pointers_block block,
                                            struct tide_pointers_block *ret_old)
{
    uintptr_t key = (uintptr_t)pointer;
    uint64_t hash = hash_of(key);
    struct shard *shard = shard_of(hash);
    *ret_old = (struct tide_pointers_block){0};
    if (!tide_latch_take(&shard->latch))
        return TIDE_POINTERS_BUSY;
    enum tide_pointers_result result = TIDE_POINTERS_DONE;
    struct entry *entry;
    if (shard->used >= shard->slots / 4 * 3 && grow(shard)) {
        result = TIDE_POINTERS_FULL;
    } else if ((entry = find(shard, hash, key))->key) {
        *ret_old = entry->block;
        entry->block = block;
    } else {
        *entry = (struct entry){.key = key, .block = block};
        shard->used++;
        count_change(key, 1);
    }
    tide_latch_release(&shard->latch);
    return result;
}

/* Empties the slot and moves back the entries after it that would no longer be found across the gap. */
static void take_out(struct shard *shard, struct entry *entry)
{
    count_change(entry->key, -1);
    shard->used--;
    uint32_t mask = shard->slots - 1, gap = (uint32_t)(entry - shard->entries), at = gap;
    for (;;) {
        at = (at + 1) & mask;
        uintptr_t key = shard->entries[at].key;
        if (!key)
            break;
        uint32_t home = (uint32_t)hash_of(key) & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            shard->entries[gap] = shard->entries[at];
            gap = at;
        }
    }
    shard->entries[gap].key = 0;
}

enum tide_pointers_result tide_pointers_take(const void *pointer, struct tide_pointers_block *ret_block)
{
    uintptr_t key = (uintptr_t)pointer;
    uint64_t hash = hash_of(key);
    struct shard *shard = shard_of(hash);
    if (!tide_latch_take(&shard->latch))
        return TIDE_POINTERS_BUSY;
    enum tide_pointers_result result = TIDE_POINTERS_ABSENT;
    struct entry *entry = shard->slots ? find(shard, hash, key) : NULL;
    if (entry && entry->key) {
        *ret_block = entry->block;
        take_out(shard, entry);
        result = TIDE_POINTERS_DONE;
    }
    tide_latch_release(&shard->latch);
    return result;
}

/* ---- ranges of addresses */

struct stretch {
    uintptr_t first, last; /* keys */
    tide_pointers_each *on_block;
    void *context;
};

/* Takes out what is in the slot and in the range. Repeats, because a removal may move another entry up. */
static bool sweep_slot(struct shard *shard, uint32_t at, const struct stretch *stretch)
{
    struct entry *entry = &shard->entries[at];
    while (entry->key >= stretch->first && entry->key <= stretch->last) {
        struct tide_pointers_block block = entry->block;
        take_out(shard, entry);
        stretch->on_block(stretch->context, block);
    }
    return entry->key != 0;
}

static size_t sweep_page(uintptr_t key, const struct stretch *stretch)
{
    uint64_t hash = hash_of(key);
    struct shard *shard = shard_of(hash);
    if (!tide_latch_take(&shard->latch))
        return 1;
    uint32_t mask = shard->slots - 1, at = (uint32_t)hash & mask;
    while (shard->slots && sweep_slot(shard, at, stretch))
        at = (at + 1) & mask;
    tide_latch_release(&shard->latch);
    return 0;
}

/* A removal never moves an entry to a slot that the sweep has passed, except entries that it has looked at:
 * those of a cluster that goes round the end of the array. */
static size_t sweep_shard(struct shard *shard, const struct stretch *stretch)
{
    if (!tide_latch_take(&shard->latch))
        return 1;
    for (uint32_t i = 0; i < shard->slots; i++)
        sweep_slot(shard, i, stretch);
    tide_latch_release(&shard->latch);
    return 0;
}

size_t tide_pointers_take_range(uintptr_t start, uintptr_t end, tide_pointers_each *on_block, void *context)
{
    size_t busy = 0;
    if (start >= end || end > TIDE_POINTERS_POOL || !tide_pointers_totals.pooled)
        return 0;
    struct stretch stretch = {.first = start | TIDE_POINTERS_POOL,
                              .last = (end - 1) | TIDE_POINTERS_POOL,
                              .on_block = on_block,
                              .context = context};
    if ((end - start) >> 12 > tide_pointers_totals.bytes / sizeof(struct entry)) {
        for (int i = 0; i < TIDE_POINTERS_SHARDS; i++)
            busy += sweep_shard(&shards[i], &stretch);
        return busy;
    }
    for (uintptr_t page = start >> 12; page <= (end - 1) >> 12; page++)
        if (tide_pointers_page_may_hold(page << 12))
            busy += sweep_page(page << 12 | TIDE_POINTERS_POOL, &stretch);
    return busy;
}
