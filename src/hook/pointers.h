/*
 * pointers.h - which live blocks were sampled, and what each counts for.
 *
 * The question asked at every free is "was this one sampled?", and the answer is nearly always no. A filter
 * of one byte per 256 bytes of address, folded to 1 MiB, says "no" with one load, from a cache line that
 * serves the blocks of four pages; it never says "no" wrongly. "Perhaps" goes to a hash map in 64 shards,
 * each with a latch of its own (latch.h) and an array that doubles up to a fixed maximum.
 *
 * Blocks of a program's own pools (tidemark.h) are in the same map under keys of their own, since the first
 * of them may lie where the chunk begins that they are cut from. A pool drops a whole stretch of them at
 * once, so they are hashed by the page they begin in, with a filter of one byte per page.
 *
 * Any thread, at any moment, never twice on one thread. Empty in a forked child.
 */
#ifndef TIDE_POINTERS_H
#define TIDE_POINTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIDE_POINTERS_SHARDS = 64,
    TIDE_POINTERS_SHARD_MOST = 16384, /* slots in a shard; 3/4 of them are used */
    TIDE_POINTERS_FILTER_BITS = 20,
    TIDE_POINTERS_UNIT_BITS = 8, /* of addresses that share a byte of it */
    TIDE_POINTERS_PAGE_BITS = 18 /* of the pools' filter: a byte for each page of 1 GiB */
};

/* Set in the keys of blocks that are not malloc's, and in no address: of a pool, of pinned memory, and of
 * device memory. */
#define TIDE_POINTERS_POOL   (UINT64_C(1) << 61)
#define TIDE_POINTERS_PINNED (UINT64_C(1) << 62)
#define TIDE_POINTERS_DEVICE (UINT64_C(1) << 63)

/* What a sampled block counts for. */
struct tide_pointers_block {
    uint64_t bytes;
    uint32_t blocks;
    uint16_t site;
    uint16_t under; /* 1 + the site that these bytes are taken from, of a pool's block; 0: none */
};

extern _Atomic uint8_t tide_pointers_filter[1 << TIDE_POINTERS_FILTER_BITS];
extern _Atomic uint8_t tide_pointers_pages[1 << TIDE_POINTERS_PAGE_BITS];

/* From a constructor. -1: forks cannot be seen. */
int tide_pointers_init(void);

static inline uintptr_t tide_pointers_filter_slot(uintptr_t address)
{
    uintptr_t unit = address >> TIDE_POINTERS_UNIT_BITS;
    return (unit ^ unit >> TIDE_POINTERS_FILTER_BITS) & ((1 << TIDE_POINTERS_FILTER_BITS) - 1);
}

/* false: certainly not in the map. Zero bytes of filter for the null pointer too. */
static inline bool tide_pointers_may_hold(const void *pointer)
{
    uintptr_t slot = tide_pointers_filter_slot((uintptr_t)pointer);
    return __builtin_expect(atomic_load_explicit(&tide_pointers_filter[slot], memory_order_relaxed) != 0, 0);
}

/* The key of a pool's block, and whether one may be in its page. */
static inline const void *tide_pointers_pooled(const void *pointer)
{
    return (const void *)((uintptr_t)pointer | TIDE_POINTERS_POOL);
}

/* Pages next to each other are so in the filter, and those that begin units of 2 MiB, as large tensors do, do
 * not all fall into the same few slots. */
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

/* Adds a block. One that is there already (its free was lost) is replaced, and what it counted for is given
 * in *ret_old, whose blocks are 0 otherwise. FULL: the map has no room, BUSY: the latch could not be had. */
enum tide_pointers_result tide_pointers_add(const void *pointer, struct tide_pointers_block block,
                                            struct tide_pointers_block *ret_old);

/* Takes a block out. ABSENT: it was not sampled; BUSY: it may have been. */
enum tide_pointers_result tide_pointers_take(const void *pointer, struct tide_pointers_block *ret_block);

/* Takes out all blocks of pools that begin in [start, end), and gives each, under the latch, to on_block. The
 * time it takes grows with the pages of the stretch (a load each) or the slots of the map, whichever is
 * less. How many shards were busy: blocks may be left in them. */
typedef void tide_pointers_each(void *context, struct tide_pointers_block block);
size_t tide_pointers_take_range(uintptr_t start, uintptr_t end, tide_pointers_each *on_block, void *context);

/* Bytes that the arrays take up, and how many blocks are in them. */
uint64_t tide_pointers_bytes(void);
uint64_t tide_pointers_count(void);

/* How many of them are blocks of pools. */
uint64_t tide_pointers_pooled_count(void);

#endif
