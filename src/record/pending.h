/*
 * pending.h - rows that later rows depend on and that may not be in the file yet.
 *
 * The writer puts each row of a table with `waits` set (schema.h) here as well as into the open transaction.
 * It clears them when the transaction is committed, and writes them again after a transaction that failed. A
 * process, whose row changes at every tick, has at most one row here, the newest. All other rows are
 * appended. At most TIDE_PENDING_BYTES are held. A row that does not fit or cannot be allocated is lost, and
 * tide_pending_lost() says so.
 */
#ifndef TIDE_PENDING_H
#define TIDE_PENDING_H

#include "record/schema.h"

enum { TIDE_PENDING_BYTES = 16 << 20 };

struct tide_pending;

/* Caller frees with tide_pending_free. NULL: out of memory. */
struct tide_pending *tide_pending_new(void);
void tide_pending_free(struct tide_pending *pending);
void tide_pending_clear(struct tide_pending *pending);

/* Copies `count` rows of one table, with their texts. Processes are put one at a time. */
void tide_pending_put(struct tide_pending *pending, enum tide_schema table, const void *rows, size_t count);

typedef int tide_on_pending(void *context, enum tide_schema table, const void *rows, size_t count);

/* Calls `on` with all rows, in the order in which they first appeared, until it returns non-zero; returns
 * that value. Rows are borrowed. */
int tide_pending_each(const struct tide_pending *pending, tide_on_pending *on, void *context);

/* True if a row was lost since the last clear. */
bool tide_pending_lost(const struct tide_pending *pending);

#endif
