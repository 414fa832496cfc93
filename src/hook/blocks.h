/*
 * blocks.h - how a block in the map is counted in the table.
 *
 * A pool's blocks lie in memory that is counted already: a chunk from malloc that tide_pool_chunk() named, or
 * a mapping. While a block is handed out, its bytes are subtracted from the site of that memory. So the sum
 * over all sites is what the program holds, and the chunk's site keeps what its pool holds in reserve.
 *
 * Same rules as ledger.h.
 */
#ifndef TIDE_BLOCKS_H
#define TIDE_BLOCKS_H

#include "channel/heap.h"
#include "hook/pointers.h"

/* Counts a block; again: its free failed, and the totals have it already. Subtracts one (a
 * tide_pointers_each). */
void tide_blocks_count(struct tide_heap_head *table, struct tide_pointers_block block, bool again);
void tide_blocks_discount(void *table, struct tide_pointers_block block);

/* Frees the block of a key and all pool blocks in it. Returns what it counted for; blocks is 0 if nothing. */
struct tide_pointers_block tide_blocks_forget(struct tide_heap_head *table, const void *key);

/* The pool blocks that begin in [start, end) are freed. */
void tide_blocks_clear(struct tide_heap_head *table, uintptr_t start, uintptr_t end);

/* Returns 1 + the site of the memory at this address, or 0 if the memory is not known. */
uint16_t tide_blocks_under(uintptr_t address);

#endif
