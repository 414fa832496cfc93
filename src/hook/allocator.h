/*
 * allocator.h - asks the C library's malloc how much free memory it keeps.
 *
 * mallinfo2() takes the lock of each arena and walks its free chunks, so it is called rarely: no sooner than
 * 250 ms after the last call, and for at most 0.5 % of the time. It must never be called from a signal
 * handler, which may have interrupted malloc with a lock held. During the call, no signal handler may run on
 * this thread, because the handler could allocate and wait for that lock. The answer goes into the head of
 * the table.
 */
#ifndef TIDE_ALLOCATOR_H
#define TIDE_ALLOCATOR_H

#include "channel/heap.h"

#include <stdbool.h>

/* From the constructor. real_malloc is the function that serves the program. If it is not the C library's, or
 * the C library has no mallinfo2(), nothing is ever asked. */
void tide_allocator_init(void *real_malloc);

/* True if it is time to ask. Takes a few nanoseconds. */
bool tide_allocator_is_due(void);

/* Asks, unless another thread is asking. The caller is not in a signal handler, and its guard must let
 * through what the C library allocates during the call. */
void tide_allocator_ask(struct tide_heap_head *table);

#endif
