/*
 * caching_allocator.h - PyTorch's caching allocator, by sizes alone.
 *
 * A request is rounded to 512 bytes and served by the smallest free block that holds it, from one of two
 * pools: blocks up to 1 MiB come from segments of 2 MiB, larger ones from segments of 20 MiB, requests from
 * 10 MiB on from a segment of their own, rounded to 2 MiB. A block is cut when more than 512 bytes (small
 * pool) or 1 MiB (large pool) are left over; what is not cut off counts as allocated. Free neighbours join.
 * Segments are never given back. Of free blocks of one size the lowest is taken, so it matters where segments
 * lie: the driver puts one into the lowest hole that holds it, or below all others in a range of whole 32
 * MiB, whose rest is a hole then; after the first, there is one hole more, above. Every stream has pools of
 * its own: what one has let go, no other can use.
 *
 * On the processor it is the C library's heap instead: what is smaller than a threshold lies in one heap that
 * shrinks from its end alone, what is larger is mapped and given back at once. The threshold begins at 128
 * KiB and rises to the largest mapping of up to 32 MiB that was freed, as glibc's does.
 *
 * tide_cacher_init -> take / give -> tide_cacher_release. Blocks are named by numbers >= 0. A take that finds
 * no memory for its own tables, or that exceeds 2^62 bytes, sets `failed` and returns -1; giving back -1 does
 * nothing.
 */
#ifndef TIDE_CACHING_ALLOCATOR_H
#define TIDE_CACHING_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the work runs: PyTorch's own, and those on which fully_shard gathers weights, of a model and of its
 * reference, and sums gradients. */
enum tide_stream {
    TIDE_STREAM_OWN,
    TIDE_STREAM_GATHER,
    TIDE_STREAM_GATHER_REFERENCE,
    TIDE_STREAM_REDUCE,
    TIDE_STREAMS
};

struct tide_cacher_block;

struct tide_cacher_hole {
    int64_t address, bytes;
};

struct tide_cacher_free { /* a pool: sorted by size, then by address */
    int *blocks;
    int count;
    size_t capacity;
};

struct tide_cacher {
    struct tide_cacher_block *blocks;
    size_t capacity;
    int count, unused; /* unused: head of the list of block numbers to use again, -1: none */
    struct tide_cacher_free pools[TIDE_STREAMS][2];
    enum tide_stream stream;        /* of the next take */
    struct tide_cacher_hole *holes; /* where the driver has room, by address */
    int hole_count;
    size_t hole_capacity;
    int64_t lowest, next_address;           /* of segments; where the heap ends */
    int64_t allocated, reserved, requested; /* bytes now */
    int64_t threshold, end_free;            /* of the heap: what is mapped, and what is free at its end */
    int last;                               /* the heap's last block, -1: none */
    bool exact; /* false: no pools, every request counts as rounded to 512 (faster) */
    bool heap;
    bool failed;
};

void tide_cacher_init(struct tide_cacher *cacher, bool exact);
/* The processor's heap. */
void tide_cacher_init_heap(struct tide_cacher *cacher);
void tide_cacher_release(struct tide_cacher *cacher);

int tide_cacher_take(struct tide_cacher *cacher, int64_t bytes);
void tide_cacher_give(struct tide_cacher *cacher, int block);

/* What a block counts as, 0 for -1. */
int64_t tide_cacher_size(const struct tide_cacher *cacher, int block);

#endif
