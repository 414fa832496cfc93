/*
 * blocks.h - what a block in the map counts for in the table.
 *
 * A pool's bytes lie in memory that is counted already: a chunk from malloc that tide_pool_chunk() named, or
 * a mapping. They are taken off the site of that memory while they are handed out, so the sum over all sites
 * is what the program holds, and what is left with the chunk's site is what its pool holds in reserve.
 *
 * Same rules as ledger.h.
 */
#ifndef TIDE_BLOCKS_H
#define TIDE_BLOCKS_H

#include "channel/heap.h"
#include "hook/pointers.h"

/* A block came, stayed after all, and went (a tide_pointers_each of the table). */
void tide_blocks_count(struct tide_heap_head *table, struct tide_pointers_block block);
void tide_blocks_restore(struct tide_heap_head *table, struct tide_pointers_block block);
void tide_blocks_discount(void *table, struct tide_pointers_block block);

/* The block of a key is freed, with what a pool handed out of it. What it counted for; blocks 0: nothing. */
struct tide_pointers_block tide_blocks_forget(struct tide_heap_head *table, const void *key);

/* Blocks of pools that begin in [start, end) are no more. */
void tide_blocks_clear(struct tide_heap_head *table, uintptr_t start, uintptr_t end);

/* 1 + the site of the memory at this address, if it is known; otherwise 0. */
uint16_t tide_blocks_under(uintptr_t address);

#endif
