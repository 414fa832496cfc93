/*
 * ledger.h - the writing end of the table of live memory by call stack (channel/heap.h is its layout).
 *
 * The process attaches to the channel at its first sample and so does each forked child, which finds itself
 * without a table (wiped.h). Lookups of known stacks take no lock; what is new is appended under one latch.
 * Every function may be called by any thread at any moment, except that one thread never enters twice: the
 * caller guards that, and saves errno.
 */
#ifndef TIDE_LEDGER_H
#define TIDE_LEDGER_H

#include "channel/heap.h"
#include "hook/object.h"

#include <stddef.h>

enum { TIDE_LEDGER_NONE = -1 };

/* From a constructor: what must be asked of the system while that is allowed. -1: forks cannot be seen, so do
 * not use the rest. */
int tide_ledger_init(void);

/* What a new table says about this process. */
struct tide_ledger_setup {
    uint64_t interval_bytes, exact_bytes;
    uint32_t state, python, python_version, cuda;
};
extern struct tide_ledger_setup tide_ledger_setup;

/* The table, attached to if it must be; NULL if there is no channel or no room for it. */
struct tide_heap_head *tide_ledger_table(void);

/* The site of a stack, made if it is new. TIDE_LEDGER_NONE, and counted, if there is no room. */
int32_t tide_ledger_find(struct tide_heap_head *table, enum tide_site_kind kind, const uint64_t *words,
                         size_t depth, bool complete);

void tide_ledger_allocated(struct tide_heap_head *table, uint32_t site, int64_t bytes, int64_t blocks);
void tide_ledger_freed(struct tide_heap_head *table, uint32_t site, int64_t bytes, int64_t blocks);

/* Changes live values alone: part of a block went away, or it was split. */
void tide_ledger_changed(struct tide_heap_head *table, uint32_t site, int64_t bytes, int64_t blocks);

/* Python code objects, known by a number that the caller derives from what identifies them. TIDE_LEDGER_NONE:
 * not known yet, or no room. */
int32_t tide_ledger_code(uint64_t key);
int32_t tide_ledger_code_add(struct tide_heap_head *table, uint64_t key, const char *file, const char *name,
                             uint32_t first_line);

/* Code was unloaded: what is known about objects must be asked again. */
void tide_ledger_unloaded(void);

/* Called for each object when it is first seen in a stack, under the latch. */
extern void (*tide_ledger_on_object)(const struct tide_object *object);

/* Bytes of the table that are in this process's memory. */
uint64_t tide_ledger_resident(const struct tide_heap_head *table);

/* A hash of what was hashed before and one word more. */
static inline uint64_t tide_ledger_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

static inline void tide_ledger_count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

#endif
