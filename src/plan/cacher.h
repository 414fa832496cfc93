/*
 * cacher.h - PyTorch's caching allocator, by sizes alone.
 *
 * A request is rounded to 512 bytes and served by the smallest free block that holds it, from one of two
 * pools: blocks up to 1 MiB come from segments of 2 MiB, larger ones from segments of 20 MiB, requests from
 * 10 MiB on from a segment of their own, rounded to 2 MiB. A block is cut when more than 512 bytes (small
 * pool) or 1 MiB (large pool) are left over; what is not cut off counts as allocated. Free neighbours join.
 * Segments are never given back. Every stream has pools of its own: what one has let go, no other can use.
 *
 * tide_cacher_init -> take / give -> tide_cacher_release. Blocks are named by numbers >= 0. A take that finds
 * no memory for its own tables, or that exceeds 2^62 bytes, sets `failed` and returns -1; giving back -1 does
 * nothing.
 */
#ifndef TIDE_CACHER_H
#define TIDE_CACHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the work runs: PyTorch's own, and those on which fully_shard gathers weights and sums gradients. */
enum tide_stream { TIDE_STREAM_OWN, TIDE_STREAM_GATHER, TIDE_STREAM_REDUCE, TIDE_STREAMS };

struct tide_cacher_block;

struct tide_cacher_free { /* a pool: sorted by size, then by address */
    int *blocks;
    int count, capacity;
};

struct tide_cacher {
    struct tide_cacher_block *blocks;
    int count, capacity, unused; /* unused: head of the list of block numbers to use again, -1: none */
    struct tide_cacher_free pools[TIDE_STREAMS][2];
    enum tide_stream stream; /* of the next take */
    int64_t next_address;
    int64_t allocated, reserved, requested; /* bytes now */
    bool exact; /* false: no pools, every request counts as rounded to 512 (faster) */
    bool failed;
};

void tide_cacher_init(struct tide_cacher *cacher, bool exact);
void tide_cacher_release(struct tide_cacher *cacher);

int tide_cacher_take(struct tide_cacher *cacher, int64_t bytes);
void tide_cacher_give(struct tide_cacher *cacher, int block);

/* What a block counts as, 0 for -1. */
int64_t tide_cacher_size(const struct tide_cacher *cacher, int block);

#endif
