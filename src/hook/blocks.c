#include "hook/blocks.h"
#include "hook/ledger.h"
#include "hook/ranges.h"

void tide_blocks_count(struct tide_heap_head *table, struct tide_pointers_block block, bool again)
{
    (again ? tide_ledger_changed : tide_ledger_allocated)(table, block.site, (int64_t)block.bytes,
                                                          block.blocks);
    if (block.under)
        tide_ledger_changed(table, block.under - 1u, -(int64_t)block.bytes, 0);
}

void tide_blocks_discount(void *table, struct tide_pointers_block block)
{
    tide_ledger_changed(table, block.site, -(int64_t)block.bytes, -(int64_t)block.blocks);
    if (block.under)
        tide_ledger_changed(table, block.under - 1u, (int64_t)block.bytes, 0);
}

void tide_blocks_clear(struct tide_heap_head *table, uintptr_t start, uintptr_t end)
{
    if (tide_pointers_take_range(start, end, tide_blocks_discount, table))
        tide_ledger_count(&table->lost_frees);
}

/* If a pool cuts up the block, the pool's blocks in it end too. */
static void clear_chunk(struct tide_heap_head *table, uintptr_t key)
{
    struct tide_range chunk;
    uintptr_t start = key & ~TIDE_POINTERS_DEVICE;
    enum tide_ranges_kind kind = key & TIDE_POINTERS_DEVICE ? TIDE_RANGES_DEVICE : TIDE_RANGES_CHUNKS;
    int taken = tide_ranges_take(kind, start, start + 1, &chunk);
    if (taken > 0)
        tide_blocks_clear(table, start, chunk.end);
    else if (taken < 0) /* a pool's chunk may have been freed, but that is unknown */
        tide_ledger_count(&table->lost_frees);
}

struct tide_pointers_block tide_blocks_forget(struct tide_heap_head *table, const void *key)
{
    struct tide_pointers_block block = {0};
    clear_chunk(table, (uintptr_t)key);
    enum tide_pointers_result result = tide_pointers_take(key, &block);
    if (result == TIDE_POINTERS_DONE)
        tide_blocks_discount(table, block);
    else if (result == TIDE_POINTERS_BUSY)
        tide_ledger_count(&table->lost_frees);
    return block;
}

uint16_t tide_blocks_under(uintptr_t address)
{
    struct tide_range range;
    bool found = tide_ranges_find(TIDE_RANGES_CHUNKS, address, address + 1, &range) ||
                 tide_ranges_find(TIDE_RANGES_DEVICE, address, address + 1, &range) ||
                 tide_ranges_find(TIDE_RANGES_MAPPED, address, address + 1, &range);
    return found && range.site < UINT16_MAX ? (uint16_t)(range.site + 1) : 0;
}
