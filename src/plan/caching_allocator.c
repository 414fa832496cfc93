#include "plan/caching_allocator.h"
#include "base/check.h"
#include "base/grow.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

enum {
    GRAIN = 512,
    SMALL_MOST = 1 << 20,
    SMALL_SEGMENT = 2 << 20,
    LARGE_SEGMENT = 20 << 20,
    LARGE_OWN = 10 << 20,
    SEGMENT_GRAIN = 2 << 20,
    BLOCKS_MOST = 1 << 22,
    RANGE_GRAIN = 32 << 20,
    FIRST_HOLE = 488 << 20,
    HEAP_GRAIN = 64,
    HEAP_LEAST = 128 << 10,
    HEAP_MOST = 32 << 20,
    PAGE = 4096,
};

struct tide_cacher_block {
    int64_t bytes, address;
    int before,
        after; /* neighbours in the segment, -1 at its ends; after: next in the list of unused numbers */
    bool large, taken, mapped;
    unsigned char stream;
};

void tide_cacher_init(struct tide_cacher *cacher, enum tide_cacher_kind kind)
{
    *cacher = (struct tide_cacher){.kind = kind, .unused = -1, .last = -1, .threshold = HEAP_LEAST};
}

void tide_cacher_release(struct tide_cacher *cacher)
{
    free(cacher->blocks);
    free(cacher->holes);
    for (int i = 0; i < TIDE_STREAMS; i++)
        for (int large = 0; large < 2; large++)
            free(cacher->pools[i][large].blocks);
    *cacher = (struct tide_cacher){.unused = -1};
}

/* Returns the number of a block like this one; -1: no memory for the table. */
static int new_block(struct tide_cacher *c, struct tide_cacher_block like)
{
    int block = c->unused;
    if (block >= 0)
        c->unused = c->blocks[block].after;
    else if (TIDE_GROW(c->blocks, c->capacity, c->count + 1, BLOCKS_MOST))
        return -1;
    else
        block = c->count++;
    c->blocks[block] = like;
    return block;
}

static void drop_block(struct tide_cacher *c, int block)
{
    c->blocks[block].after = c->unused;
    c->unused = block;
}

/* Returns the first place in the pool whose block is not below (bytes, address). */
static int pool_place(const struct tide_cacher *c, const struct tide_cacher_free *pool, int64_t bytes,
                      int64_t address)
{
    int low = 0, high = pool->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const struct tide_cacher_block *b = &c->blocks[pool->blocks[middle]];
        if (b->bytes < bytes || (b->bytes == bytes && b->address < address))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct tide_cacher_free *pool_of(struct tide_cacher *c, int block)
{
    return &c->pools[c->blocks[block].stream][c->blocks[block].large];
}

static bool pool_add(struct tide_cacher *c, int block)
{
    struct tide_cacher_free *pool = pool_of(c, block);
    if (TIDE_GROW(pool->blocks, pool->capacity, pool->count + 1, BLOCKS_MOST))
        return false;
    int at = pool_place(c, pool, c->blocks[block].bytes, c->blocks[block].address);
    memmove(pool->blocks + at + 1, pool->blocks + at, (size_t)(pool->count - at) * sizeof *pool->blocks);
    pool->blocks[at] = block;
    pool->count++;
    return true;
}

static void pool_remove(struct tide_cacher *c, int block)
{
    struct tide_cacher_free *pool = pool_of(c, block);
    int at = pool_place(c, pool, c->blocks[block].bytes, c->blocks[block].address);
    TIDE_CHECK(pool->blocks[at], ==, block);
    pool->count--;
    memmove(pool->blocks + at, pool->blocks + at + 1, (size_t)(pool->count - at) * sizeof *pool->blocks);
}

static int64_t round_up(int64_t bytes, int64_t grain)
{
    return (bytes + grain - 1) / grain * grain;
}

/* Inserts a hole, in the order of addresses. */
static bool add_hole(struct tide_cacher *c, int64_t address, int64_t bytes)
{
    if (TIDE_GROW(c->holes, c->hole_capacity, c->hole_count + 1, BLOCKS_MOST))
        return false;
    int at = c->hole_count++;
    for (; at > 0 && c->holes[at - 1].address > address; at--)
        c->holes[at] = c->holes[at - 1];
    c->holes[at] = (struct tide_cacher_hole){.address = address, .bytes = bytes};
    return true;
}

/* Finds where the driver puts a segment. False: no memory for the tables. */
static bool place_segment(struct tide_cacher *c, int64_t size, int64_t *ret_address)
{
    for (int i = 0; i < c->hole_count; i++) {
        struct tide_cacher_hole *hole = &c->holes[i];
        if (hole->bytes < size)
            continue;
        *ret_address = hole->address;
        hole->address += size;
        hole->bytes -= size;
        if (!hole->bytes)
            memmove(hole, hole + 1, (size_t)(--c->hole_count - i) * sizeof *hole);
        return true;
    }
    bool first = !c->lowest;
    int64_t range = round_up(size, RANGE_GRAIN);
    c->lowest -= range;
    *ret_address = c->lowest;
    return (range == size || add_hole(c, c->lowest + size, range - size)) &&
           (!first || add_hole(c, 0, FIRST_HOLE));
}

/* Gives all segments that are wholly free back to the driver. */
static bool release_segments(struct tide_cacher *c)
{
    for (int i = 0; i < TIDE_STREAMS * 2; i++) {
        struct tide_cacher_free *pool = &c->pools[i / 2][i % 2];
        int kept = 0;
        for (int k = 0; k < pool->count; k++) {
            int block = pool->blocks[k];
            const struct tide_cacher_block *b = &c->blocks[block];
            if (b->before >= 0 || b->after >= 0) {
                pool->blocks[kept++] = block;
                continue;
            }
            c->reserved -= b->bytes;
            if (!add_hole(c, b->address, b->bytes))
                return false;
            drop_block(c, block);
        }
        pool->count = kept;
    }
    return true;
}

static int new_segment(struct tide_cacher *c, int64_t bytes)
{
    int64_t size = bytes <= SMALL_MOST ? SMALL_SEGMENT
                   : bytes < LARGE_OWN ? LARGE_SEGMENT
                                       : round_up(bytes, SEGMENT_GRAIN);
    if (c->limit && c->reserved > c->limit - size && (!release_segments(c) || c->reserved > c->limit - size))
        return -1;
    struct tide_cacher_block b = {.bytes = size,
                                  .before = -1,
                                  .after = -1,
                                  .large = bytes > SMALL_MOST,
                                  .stream = (unsigned char)c->stream};
    if (c->reserved > TIDE_LARGEST - size || !place_segment(c, size, &b.address))
        return -1;
    c->reserved += size;
    return new_block(c, b);
}

/* Leaves `bytes` in the block and makes a free block of the rest. */
static bool cut(struct tide_cacher *c, int block, int64_t bytes)
{
    struct tide_cacher_block like = c->blocks[block];
    like.bytes -= bytes;
    like.address += bytes;
    like.before = block;
    int rest = new_block(c, like);
    if (rest < 0)
        return false;
    struct tide_cacher_block *b = &c->blocks[block];
    if (b->after >= 0)
        c->blocks[b->after].before = rest;
    b->after = rest;
    b->bytes = bytes;
    if (c->last == block)
        c->last = rest;
    return pool_add(c, rest);
}

/* Adds a block at the heap's end. The heap grows by what is not free there. */
static int extend_heap(struct tide_cacher *c, int64_t size)
{
    struct tide_cacher_block b = {.bytes = size, .address = c->next_address, .before = c->last, .after = -1};
    int block = new_block(c, b);
    if (block < 0)
        return -1;
    c->next_address += size;
    if (c->last >= 0)
        c->blocks[c->last].after = block;
    c->last = block;
    c->reserved += size > c->end_free ? size - c->end_free : 0;
    c->end_free = size > c->end_free ? 0 : c->end_free - size;
    return block;
}

/* Takes the smallest block of the pool that holds `bytes`, or a new one, and cuts off a rest of at least
 * least_rest. */
static int take_from(struct tide_cacher *c, struct tide_cacher_free *pool, int64_t bytes, int64_t least_rest)
{
    int at = pool_place(c, pool, bytes, INT64_MIN), block;
    if (at < pool->count) {
        block = pool->blocks[at];
        pool_remove(c, block);
    } else
        block = c->kind == TIDE_CACHER_HEAP ? extend_heap(c, bytes) : new_segment(c, bytes);
    bool cuts = block >= 0 && c->blocks[block].bytes - bytes >= least_rest;
    return !cuts || cut(c, block, bytes) ? block : -1;
}

static int take_from_heap(struct tide_cacher *c, int64_t bytes)
{
    if (bytes < c->threshold)
        return take_from(c, &c->pools[0][0], round_up(bytes, HEAP_GRAIN) + HEAP_GRAIN, 2 * HEAP_GRAIN);
    struct tide_cacher_block b = {.bytes = round_up(bytes, PAGE), .before = -1, .after = -1, .mapped = true};
    c->reserved += b.bytes;
    return new_block(c, b);
}

static int take_from_pools(struct tide_cacher *c, int64_t bytes)
{
    bool large = bytes > SMALL_MOST;
    return take_from(c, &c->pools[c->stream][large], bytes, large ? SMALL_MOST + 1 : GRAIN);
}

int tide_cacher_take(struct tide_cacher *c, int64_t bytes)
{
    if (bytes <= 0)
        return -1;
    int block = -1;
    if (!c->failed && bytes <= TIDE_LARGEST && c->allocated <= TIDE_LARGEST - bytes)
        block = c->kind == TIDE_CACHER_HEAP ? take_from_heap(c, bytes)
                : c->kind == TIDE_CACHER_POOLS
                    ? take_from_pools(c, round_up(bytes, GRAIN))
                    : new_block(c, (struct tide_cacher_block){.bytes = round_up(bytes, GRAIN)});
    if (block < 0) {
        c->failed = true;
        return -1;
    }
    c->blocks[block].taken = true;
    c->allocated += c->blocks[block].bytes;
    if (c->kind == TIDE_CACHER_ROUNDED && c->allocated > c->reserved)
        c->reserved = c->allocated;
    return block;
}

/* Joins a free neighbour to the block. */
static void join(struct tide_cacher *c, int block, int neighbour)
{
    if (neighbour < 0 || c->blocks[neighbour].taken)
        return;
    pool_remove(c, neighbour);
    struct tide_cacher_block *b = &c->blocks[block], *n = &c->blocks[neighbour];
    if (n->address < b->address) {
        b->address = n->address;
        b->before = n->before;
        if (n->before >= 0)
            c->blocks[n->before].after = block;
    } else {
        b->after = n->after;
        if (n->after >= 0)
            c->blocks[n->after].before = block;
    }
    b->bytes += n->bytes;
    if (c->last == neighbour)
        c->last = block;
    drop_block(c, neighbour);
}

static void unmap(struct tide_cacher *c, int block)
{
    int64_t bytes = c->blocks[block].bytes;
    c->reserved -= bytes;
    if (bytes > c->threshold && bytes <= HEAP_MOST)
        c->threshold = bytes;
    drop_block(c, block);
}

/* Free memory at the heap's end belongs to no block. It is given back once it is twice the threshold. */
static void shrink_heap(struct tide_cacher *c, int block)
{
    struct tide_cacher_block *b = &c->blocks[block];
    c->last = b->before;
    if (c->last >= 0)
        c->blocks[c->last].after = -1;
    c->next_address -= b->bytes;
    c->end_free += b->bytes;
    drop_block(c, block);
    if (c->end_free >= 2 * c->threshold) {
        c->reserved -= c->end_free;
        c->end_free = 0;
    }
}

void tide_cacher_give(struct tide_cacher *c, int block)
{
    if (block < 0)
        return;
    struct tide_cacher_block *b = &c->blocks[block];
    TIDE_CHECK_TRUE(b->taken);
    b->taken = false;
    c->allocated -= b->bytes;
    if (b->mapped)
        return unmap(c, block);
    if (c->kind == TIDE_CACHER_ROUNDED)
        return drop_block(c, block);
    join(c, block, b->before);
    join(c, block, c->blocks[block].after);
    if (c->kind == TIDE_CACHER_HEAP && c->last == block)
        shrink_heap(c, block);
    else if (!pool_add(c, block))
        c->failed = true;
}

int64_t tide_cacher_size(const struct tide_cacher *c, int block)
{
    return block < 0 ? 0 : c->blocks[block].bytes;
}
