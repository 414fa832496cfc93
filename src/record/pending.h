/*
 * pending.h - rows that later rows depend on and that are not yet in the file for certain.
 *
 * The writer puts each row of a table that `waits` (schema.h) here as well as into the open transaction,
 * forgets them when the transaction is committed, and writes them again after one that failed. A process,
 * which changes at every tick, has at most one row here, the newest; of the others a later row follows an
 * earlier one. At most TIDE_PENDING_BYTES are held; what does not fit, or cannot be allocated, is lost and
 * tide_pending_lost() says so.
 */
#ifndef TIDE_PENDING_H
#define TIDE_PENDING_H

#include "record/schema.h"

enum { TIDE_PENDING_BYTES = 16 << 20 };

struct tide_pending;

/* Caller frees with tide_pending_free; NULL when there is no memory. */
struct tide_pending *tide_pending_new(void);
void tide_pending_free(struct tide_pending *pending);
void tide_pending_clear(struct tide_pending *pending);

/* Rows of one table, which are copied with their texts. A process comes alone. */
void tide_pending_put(struct tide_pending *pending, enum tide_schema table, const void *rows, size_t count);

typedef int tide_on_pending(void *context, enum tide_schema table, const void *rows, size_t count);

/* In the order of their first appearance, until one returns non-zero, which is returned. Rows are borrowed.
 */
int tide_pending_each(const struct tide_pending *pending, tide_on_pending *on, void *context);

/* Whether a row was lost since the last clear. */
bool tide_pending_lost(const struct tide_pending *pending);

#endif
