/*
 * allocator.h - what the C library's malloc keeps beside what the program holds.
 *
 * mallinfo2() takes the lock of each arena and walks its free chunks, so it is asked rarely: no sooner than
 * 250 ms after the last time, and so that it takes at most 0.5 % of the time. It must never be asked from a
 * signal handler, which may have interrupted malloc with a lock held; and while it is asked, no handler may
 * run on this thread, since what the handler allocates could wait for that lock. The answer goes into the
 * head of the table.
 */
#ifndef TIDE_ALLOCATOR_H
#define TIDE_ALLOCATOR_H

#include "channel/heap.h"

#include <stdbool.h>

/* From the constructor: real_malloc is what serves the program. If it is not the C library's that could be
 * asked, nothing ever is. */
void tide_allocator_init(void *real_malloc);

/* Whether it is time to ask: a few nanoseconds. */
bool tide_allocator_is_due(void);

/* Asks, unless another thread is at it. The caller is in no signal handler, and its guard lets pass what the
 * C library allocates on the way. */
void tide_allocator_ask(struct tide_heap_head *table);

#endif
