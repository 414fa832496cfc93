/*
 * wiped.h - memory that a forked child finds empty, and the lock that goes with it.
 *
 * What the hook knows about a process (which blocks are live, where its table is, who holds a lock) is untrue
 * in a child. It is kept in page-aligned static storage that the kernel zeroes at fork, however the fork was
 * made, so all zeros must be a valid, empty, unlocked state of it.
 */
#ifndef TIDE_WIPED_H
#define TIDE_WIPED_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* On the type of a structure, so that its size is whole pages too: what shared its last page would be wiped
 * with it. */
#define TIDE_WIPED __attribute__((aligned(4096)))

/* Declares storage of whole pages as described. Not from two threads at once. -1 if neither way to do it
 * works. */
int tide_wiped_declare(void *storage, size_t bytes);

/* Pages for the hook itself, and back: straight from the kernel, not through the functions that the hook
 * stands in front of. NULL if there are none. */
void *tide_wiped_map(size_t bytes);
void tide_wiped_unmap(void *memory, size_t bytes);

/* A lock for a few instructions. A thread that does not get it in about 20 ms goes without what it wanted to
 * do, and from then on so does every other at once, until the holder lets go: the holder may be a thread
 * whose signal handler jumped out of the hook. Never taken twice by one thread: the caller's guard sees to
 * that. */
typedef atomic_uint tide_latch;

enum { TIDE_LATCH_FREE, TIDE_LATCH_HELD, TIDE_LATCH_ABANDONED };

bool tide_latch_wait(tide_latch *latch);

static inline bool tide_latch_take(tide_latch *latch)
{
    unsigned expected = TIDE_LATCH_FREE;
    return atomic_compare_exchange_strong_explicit(latch, &expected, TIDE_LATCH_HELD, memory_order_acquire,
                                                   memory_order_relaxed) ||
           tide_latch_wait(latch);
}

static inline void tide_latch_release(tide_latch *latch)
{
    atomic_store_explicit(latch, TIDE_LATCH_FREE, memory_order_release);
}

#endif
