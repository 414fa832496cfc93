/*
 * pointers.h - which live blocks were sampled, and what each counts for.
 *
 * Every free asks "was this block sampled?", and the answer is nearly always no. A filter of one byte per 256
 * bytes of address, folded to 1 MiB, answers "no" with one load, from a cache line that covers the blocks of
 * four pages. It never says "no" wrongly. After a "perhaps" the block is looked up in a hash map of 64
 * shards, each with its own latch (latch.h) and an array that doubles up to a fixed maximum.
 *
 * Blocks of a program's own pools (tidemark.h) are in the same map under separate keys, because the first
 * block of a chunk may have the chunk's address. A pool drops a whole range of blocks at once, so its blocks
 * are hashed by the page they begin in, and their filter has one byte per page.
 *
 * Any thread, at any moment, never twice on one thread. Empty in a forked child.
 */
#ifndef TIDE_POINTERS_H
#define TIDE_POINTERS_H

#include "hook/wiped.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIDE_POINTERS_SHARDS = 64,
    TIDE_POINTERS_SHARD_MOST = 16384, /* slots in a shard; 3/4 of them are used */
    TIDE_POINTERS_FILTER_BITS = 20,
    TIDE_POINTERS_UNIT_BITS = 8, /* of addresses that share a byte of the filter */
    TIDE_POINTERS_PAGE_BITS = 18 /* of the pools' filter: one byte for each page of 1 GiB */
};

/* Bits that are set in the keys of blocks that are not malloc's, and in no address: blocks of a pool, of
 * pinned memory and of device memory. */
#define TIDE_POINTERS_POOL   (UINT64_C(1) << 61)
#define TIDE_POINTERS_PINNED (UINT64_C(1) << 62)
#define TIDE_POINTERS_DEVICE (UINT64_C(1) << 63)

/* What a sampled block counts for. */
struct tide_pointers_block {
    uint64_t bytes;
    uint32_t blocks;
    uint16_t site;
    uint16_t under; /* for a pool's block, 1 + the site that its bytes are subtracted from; 0: none */
};

extern _Atomic uint8_t tide_pointers_filter[1 << TIDE_POINTERS_FILTER_BITS];
extern _Atomic uint8_t tide_pointers_pages[1 << TIDE_POINTERS_PAGE_BITS];

/* From a constructor. -1: memory cannot be wiped at fork. */
int tide_pointers_init(void);

static inline uintptr_t tide_pointers_filter_slot(uintptr_t address)
{
    uintptr_t unit = address >> TIDE_POINTERS_UNIT_BITS;
    return (unit ^ unit >> TIDE_POINTERS_FILTER_BITS) & ((1 << TIDE_POINTERS_FILTER_BITS) - 1);
}

/* False if the pointer is certainly not in the map. False for NULL too, whose filter byte stays 0. */
static inline bool tide_pointers_may_hold(const void *pointer)
{
    uintptr_t slot = tide_pointers_filter_slot((uintptr_t)pointer);
    return __builtin_expect(atomic_load_explicit(&tide_pointers_filter[slot], memory_order_relaxed) != 0, 0);
}

/* The key of a pool's block. */
static inline const void *tide_pointers_pooled(const void *pointer)
{
    return (const void *)((uintptr_t)pointer | TIDE_POINTERS_POOL);
}

/* Adjacent pages are adjacent in the filter. Pages at multiples of 2 MiB, where large tensors begin, do not
 * all fall into the same few slots. */
static inline uintptr_t tide_pointers_page_slot(uintptr_t address)
{
    return (address >> 12 ^ address >> 21) & ((1 << TIDE_POINTERS_PAGE_BITS) - 1);
}

static inline bool tide_pointers_page_may_hold(uintptr_t address)
{
    uintptr_t slot = tide_pointers_page_slot(address);
    return __builtin_expect(atomic_load_explicit(&tide_pointers_pages[slot], memory_order_relaxed) != 0, 0);
}

enum tide_pointers_result {
    TIDE_POINTERS_DONE,
    TIDE_POINTERS_ABSENT,
    TIDE_POINTERS_FULL,
    TIDE_POINTERS_BUSY
};

/* Adds a block. If its key is there already (a free was missed), the entry is replaced and *ret_old is its
 * old value; otherwise ret_old->blocks is 0. FULL: there is no room. BUSY: the latch could not be taken. */
enum tide_pointers_result tide_pointers_add(const void *pointer, struct tide_pointers_block block,
                                            struct tide_pointers_block *ret_old);

/* Takes a block out. ABSENT: it was not sampled; BUSY: it may have been. */
enum tide_pointers_result tide_pointers_take(const void *pointer, struct tide_pointers_block *ret_block);

/* Takes out all pool blocks that begin in [start, end) and passes each to on_block, under the latch. The cost
 * is one load per page of the range, or a pass over all slots of the map if that is less. Returns how many
 * shards were busy: blocks may be left in them. */
typedef void tide_pointers_each(void *context, struct tide_pointers_block block);
size_t tide_pointers_take_range(uintptr_t start, uintptr_t end, tide_pointers_each *on_block, void *context);

extern struct TIDE_WIPED tide_pointers_totals {
    _Atomic uint64_t bytes;         /* of the arrays */
    _Atomic uint64_t count, pooled; /* blocks in them, and how many of these belong to pools */
} tide_pointers_totals;

#endif
