/*
 * pool.c - what a program reports about its own pools (tidemark.h), defined only here.
 *
 * Fast and slow halves as in interpose.c. Wrong calls do no harm: pointers that were never reported, reported
 * twice, or invalid are ignored.
 */
#include "hook/blocks.h"
#include "hook/ledger.h"
#include "hook/recorder_private.h"
#include "tidemark.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOW   static __attribute__((noinline))

static bool is_address(const void *pointer)
{
    return pointer && (uintptr_t)pointer < TIDE_POINTERS_POOL;
}

static uintptr_t end_of(const void *start, size_t bytes)
{
    uintptr_t end = (uintptr_t)start + bytes;
    return end < bytes || end > TIDE_POINTERS_POOL ? TIDE_POINTERS_POOL : end;
}

SLOW void alloc_recorded(const void *pointer, size_t bytes)
{
    if (is_address(pointer))
        tide_recorder_allocated(TIDE_SITE_POOL, pointer, bytes, TIDE_UNWIND_CALLER);
}

SLOW void free_recorded(const void *pointer)
{
    if (is_address(pointer))
        tide_recorder_take(tide_pointers_pooled(pointer));
}

/* Forgets an earlier block at this pointer, because the pool has reused its memory. */
EXPORT void(tide_pool_alloc)(void *pointer, size_t bytes)
{
    if (tide_pointers_page_may_hold((uintptr_t)pointer))
        free_recorded(pointer);
    if (tide_recorder_due(bytes))
        alloc_recorded(pointer, bytes);
}

EXPORT void(tide_pool_free)(void *pointer)
{
    if (tide_pointers_page_may_hold((uintptr_t)pointer))
        free_recorded(pointer);
}

EXPORT void(tide_pool_clear)(void *start, size_t bytes)
{
    if (tide_pointers_totals.pooled && is_address(start))
        TIDE_IN_TABLE(tide_blocks_clear(table, (uintptr_t)start, end_of(start, bytes)));
}

/* Returns the site of a chunk. From now on the chunk counts exactly, so that subtracting its blocks leaves
 * exactly its reserve. A block that is always recorded is counted already and keeps the stack that allocated
 * it. One that may not have been recorded gets the caller's stack. */
static int32_t adopt(struct tide_heap_head *table, struct tide_range chunk, struct tide_unwind_frame caller)
{
    const void *pointer = (const void *)chunk.start;
    size_t bytes = chunk.end - chunk.start;
    struct tide_pointers_block block = {0}, old;
    if (tide_pointers_take(pointer, &block) == TIDE_POINTERS_DONE) {
        if (block.blocks == 1 && block.bytes == bytes &&
            tide_pointers_add(pointer, block, &old) == TIDE_POINTERS_DONE)
            return block.site;
        tide_blocks_discount(table, block);
    }
    int32_t site = tide_recorder_site(table, TIDE_SITE_MALLOC, caller);
    block = (struct tide_pointers_block){.bytes = bytes, .blocks = 1, .site = (uint16_t)site};
    return site >= 0 && tide_recorder_place(table, pointer, block) ? site : TIDE_LEDGER_NONE;
}

/* A mapping is known and not adopted. If malloc bypasses the hook, no free of the chunk would be seen. */
EXPORT void(tide_pool_chunk)(void *start, size_t bytes)
{
    struct tide_range mapped, chunk = {.start = (uintptr_t)start, .end = end_of(start, bytes)};
    struct tide_heap_head *table = is_address(start) && bytes ? tide_recorder_enter() : NULL;
    if (!table)
        return;
    tide_blocks_clear(table, chunk.start, chunk.end);
    tide_ranges_cut(TIDE_RANGES_CHUNKS, chunk.start, chunk.end, NULL, NULL);
    if (tide_ledger_setup.state != TIDE_HEAP_REPLACED &&
        !tide_ranges_find(TIDE_RANGES_MAPPED, chunk.start, chunk.end, &mapped)) {
        int32_t site = adopt(table, chunk, TIDE_UNWIND_CALLER);
        chunk.site = (uint32_t)site;
        if (site >= 0 && tide_ranges_add(TIDE_RANGES_CHUNKS, chunk, false))
            tide_ledger_count(&table->dropped_pointers);
    }
    tide_recorder_leave();
}
