/*
 * pointers.h - which live blocks were sampled, and what each counts for.
 *
 * The question asked at every free is "was this one sampled?", and the answer is nearly always no. A filter
 * of one byte per 16 bytes of address, folded to 1 MiB, says "no" with one load, from a cache line that
 * serves the neighbouring blocks too; it never says "no" wrongly. "Perhaps" goes to a hash map in 64 shards,
 * each with a latch of its own (wiped.h) and an array that doubles up to a fixed maximum.
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
    TIDE_POINTERS_SHARD_MOST = 16384, /* places in a shard; 3/4 of them are used */
    TIDE_POINTERS_FILTER_BITS = 20
};

/* What a sampled block counts for. */
struct tide_pointers_block {
    uint64_t bytes;
    uint32_t blocks, site;
};

extern _Atomic uint8_t tide_pointers_filter[1 << TIDE_POINTERS_FILTER_BITS];

/* From a constructor. -1: forks cannot be seen. */
int tide_pointers_init(void);

/* false: certainly not in the map. Zero bytes of filter for the null pointer too. */
static inline bool tide_pointers_may_hold(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    uintptr_t place =
        (address >> 4 ^ address >> (4 + TIDE_POINTERS_FILTER_BITS)) & ((1 << TIDE_POINTERS_FILTER_BITS) - 1);
    return __builtin_expect(atomic_load_explicit(&tide_pointers_filter[place], memory_order_relaxed) != 0, 0);
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

/* Bytes that the arrays take up, and how many blocks are in them. */
uint64_t tide_pointers_bytes(void);
uint64_t tide_pointers_count(void);

#endif
