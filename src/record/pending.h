/*
 * pending.h - rows that later rows depend on and that are not yet in the file for certain.
 *
 * The writer puts each process, meta, device, limit, note, frame, stack, site and heap state row here as well
 * as into the open transaction, forgets them when the transaction is committed, and writes them again after
 * one that failed. A process, a meta key or a device has at most one row here, the newest. At most
 * TIDE_PENDING_BYTES are held; what does not fit, or cannot be allocated, is lost and tide_pending_lost()
 * says so.
 */
#ifndef TIDE_PENDING_H
#define TIDE_PENDING_H

#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>

enum { TIDE_PENDING_BYTES = 8 << 20 };

enum tide_pending_kind {
    TIDE_PENDING_PROCESS,
    TIDE_PENDING_META,
    TIDE_PENDING_GPU_DEVICE,
    TIDE_PENDING_LIMIT,
    TIDE_PENDING_NOTE,
    TIDE_PENDING_FRAME,
    TIDE_PENDING_STACK,
    TIDE_PENDING_SITE,
    TIDE_PENDING_HEAP_STATE,
};

struct tide_pending_row {
    enum tide_pending_kind kind;
    union {
        struct tide_process process;
        struct {
            const char *key;
            const char *text; /* NULL: it is value */
            int64_t value;
        } meta;
        struct tide_gpu_device gpu_device;
        struct tide_limit limit;
        struct tide_note note;
        struct tide_frame frame;
        struct {
            int64_t id;
            const int64_t *frames;
            size_t depth;
        } stack;
        struct tide_site site;
        struct tide_heap_status heap_state;
    };
    struct tide_pending_row *next;
};

struct tide_pending;

/* Caller frees with tide_pending_free; NULL when there is no memory. */
struct tide_pending *tide_pending_new(void);
void tide_pending_free(struct tide_pending *pending);
void tide_pending_clear(struct tide_pending *pending);

void tide_pending_process(struct tide_pending *pending, const struct tide_process *process);
void tide_pending_meta(struct tide_pending *pending, const char *key, const char *text, int64_t value);
void tide_pending_gpu_device(struct tide_pending *pending, const struct tide_gpu_device *device);
void tide_pending_limit(struct tide_pending *pending, const struct tide_limit *limit);
void tide_pending_note(struct tide_pending *pending, const struct tide_note *note);
void tide_pending_frame(struct tide_pending *pending, const struct tide_frame *frame);
void tide_pending_stack(struct tide_pending *pending, int64_t id, const int64_t *frames, size_t depth);
void tide_pending_site(struct tide_pending *pending, const struct tide_site *site);
void tide_pending_heap_status(struct tide_pending *pending, const struct tide_heap_status *state);

/* In the order of their first appearance, until one returns non-zero, which is returned. Rows are borrowed.
 */
int tide_pending_each(const struct tide_pending *pending, int (*on)(void *, const struct tide_pending_row *),
                      void *context);

/* Whether a row was lost since the last clear. */
bool tide_pending_lost(const struct tide_pending *pending);

#endif
