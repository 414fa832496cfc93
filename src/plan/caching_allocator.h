/*
 * caching_allocator.h - PyTorch's caching allocator, by sizes alone.
 *
 * A request is rounded to 512 bytes and served by the smallest free block that holds it, from one of two
 * pools: blocks up to 1 MiB come from segments of 2 MiB, larger ones from segments of 20 MiB, and requests
 * from 10 MiB on from a segment of their own, rounded to 2 MiB. A block is cut if at least 512 bytes (small
 * pool) or more than 1 MiB (large pool) are left over; a rest that is not cut off counts as allocated. Free
 * neighbours are joined. Segments are given back only if a new one would exceed the limit: then all that are
 * wholly free. Of free blocks of one size the lowest is taken, so it matters where segments lie. The driver
 * puts a segment into the lowest hole that holds it, or else below all others in a range of whole 32 MiB,
 * whose rest becomes a hole. After the first segment there is one more hole, above. Every stream has its own
 * pools: no other stream can use what it has freed.
 *
 * On the processor it is the C library's heap instead. Requests below a threshold lie in one heap that
 * shrinks only from its end; larger ones are mapped, and given back at once. The threshold begins at 128 KiB
 * and rises to the largest mapping of up to 32 MiB that was freed, as in glibc.
 *
 * tide_cacher_init -> take / give -> tide_cacher_release. Blocks are named by numbers >= 0. A take that finds
 * no memory for its own tables, or that exceeds the limit or 2^62 bytes, sets `failed` and returns -1; giving
 * back -1 does nothing.
 */
#ifndef TIDE_CACHING_ALLOCATOR_H
#define TIDE_CACHING_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The stream that work runs on: PyTorch's own, those on which fully_shard gathers the weights of a model and
 * of its reference, and the one on which it sums gradients. */
enum tide_stream {
    TIDE_STREAM_OWN,
    TIDE_STREAM_GATHER,
    TIDE_STREAM_GATHER_REFERENCE,
    TIDE_STREAM_REDUCE,
    TIDE_STREAMS
};

/* Which allocator: only rounded sizes, which is faster; PyTorch's pools; the C library's heap. */
enum tide_cacher_kind { TIDE_CACHER_ROUNDED, TIDE_CACHER_POOLS, TIDE_CACHER_HEAP };

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
    enum tide_cacher_kind kind;
    struct tide_cacher_block *blocks;
    size_t capacity;
    int count, unused; /* unused: head of the list of block numbers to use again, -1: none */
    struct tide_cacher_free pools[TIDE_STREAMS][2];
    enum tide_stream stream;        /* of the next take */
    struct tide_cacher_hole *holes; /* where the driver has room, sorted by address */
    int hole_count;
    size_t hole_capacity;
    int64_t lowest, next_address; /* lowest segment; end of the heap */
    int64_t allocated, reserved;  /* bytes now */
    int64_t limit;                /* of reserved bytes, 0: none; set by the user of exact pools */
    int64_t threshold, end_free;  /* mapped from this size on; bytes free at the end */
    int last;                     /* the heap's last block, -1: none */
    bool failed;
};

void tide_cacher_init(struct tide_cacher *cacher, enum tide_cacher_kind kind);
void tide_cacher_release(struct tide_cacher *cacher);

int tide_cacher_take(struct tide_cacher *cacher, int64_t bytes);
void tide_cacher_give(struct tide_cacher *cacher, int block);

/* Returns the bytes that a block counts for, 0 for -1. */
int64_t tide_cacher_size(const struct tide_cacher *cacher, int block);

#endif
