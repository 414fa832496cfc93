/*
 * ledger.h - the writing end of the table of live memory by call stack (channel/heap.h is its layout).
 *
 * A process attaches to the channel at its first sample. So does each forked child, which begins without a
 * table (wiped.h). Lookups of known stacks take no lock; new entries are appended under one latch. Any thread
 * may call every function at any time, but no thread may enter twice: the caller guards against that, and
 * saves errno.
 */
#ifndef TIDE_LEDGER_H
#define TIDE_LEDGER_H

#include "channel/heap.h"
#include "hook/object.h"

#include <stddef.h>

enum { TIDE_LEDGER_NONE = -1 };

/* From a constructor, while the system may still be asked. -1: memory cannot be wiped at fork, so the other
 * functions must not be used. */
int tide_ledger_init(void);

/* What a new table says about this process. */
struct tide_ledger_setup {
    uint64_t interval_bytes, exact_bytes;
    uint32_t state, python, python_version, cuda;
};
extern struct tide_ledger_setup tide_ledger_setup;

/* Returns the table, and attaches to it if necessary. NULL: there is no channel, or no room for the table. */
struct tide_heap_head *tide_ledger_table(void);

/* Returns the site of a stack, made if it is new. TIDE_LEDGER_NONE, and counted, if there is no room. */
int32_t tide_ledger_find(struct tide_heap_head *table, enum tide_site_kind kind, const uint64_t *words,
                         size_t depth, bool complete);

void tide_ledger_allocated(struct tide_heap_head *table, uint32_t site, int64_t bytes, int64_t blocks);

/* Changes the live values only, not the totals: a block or a part of it was freed, or the block was split. */
void tide_ledger_changed(struct tide_heap_head *table, uint32_t site, int64_t bytes, int64_t blocks);

/* Python code objects. The caller makes the key from what identifies one. TIDE_LEDGER_NONE: not known yet, or
 * no room. */
int32_t tide_ledger_code(uint64_t key);
int32_t tide_ledger_code_add(struct tide_heap_head *table, uint64_t key, const char *file, const char *name,
                             uint32_t first_line);

/* Code was unloaded, so what is known about objects must be looked up again. */
void tide_ledger_unloaded(void);

/* Called under the latch for each object that appears in a stack for the first time. */
extern void (*tide_ledger_on_object)(const struct tide_object *object);

/* Bytes of the table that are in this process's memory. */
uint64_t tide_ledger_resident(const struct tide_heap_head *table);

/* Adds one word to a hash. */
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
