/*
 * latch.h - a lock for a few instructions. No thread waits for it for ever.
 *
 * Its holder may have been taken off the processor in the middle of them, on a busy machine for a long time:
 * it is waited for, as with any lock. But it may also be a thread whose signal handler jumped out of the hook
 * and that will never let go, or a handler that runs long or waits for somebody. So the latch says which
 * thread holds it, and one that sleeps, has ended, or has used more of the processor than anything done under
 * a latch takes is given up: the thread that waited leaves its work undone, and from then on so does every
 * other thread at once, until the holder lets go after all.
 *
 * Never taken twice by one thread: the caller's guard sees to that. errno is not kept.
 */
#ifndef TIDE_LATCH_H
#define TIDE_LATCH_H

#include "hook/wiped.h"

#include <stdatomic.h>
#include <stdbool.h>

/* The thread that holds it; TIDE_LATCH_FREE or TIDE_LATCH_ABANDONED otherwise. All zeros is free. */
typedef atomic_uint tide_latch;

enum { TIDE_LATCH_FREE = 0, TIDE_LATCH_ABANDONED = 1 << 30 }; /* numbers of threads are below 2^22 */

/* From a constructor. -1: forks cannot be seen. */
int tide_latch_init(void);

/* The calling thread, and whether it is the first of its process. */
struct tide_latch_self {
    unsigned thread; /* 0: not asked yet */
    unsigned life;   /* of the process, in which it was asked: another one in a forked child */
    bool first;
};
extern __thread struct tide_latch_self tide_latch_self __attribute__((tls_model("initial-exec")));
extern struct TIDE_WIPED tide_latch_process {
    _Atomic unsigned life; /* 0: a new process */
} tide_latch_process;

void tide_latch_ask_self(void);
bool tide_latch_wait(tide_latch *latch);

static inline const struct tide_latch_self *tide_latch_me(void)
{
    unsigned life = atomic_load_explicit(&tide_latch_process.life, memory_order_relaxed);
    if (__builtin_expect(!life || tide_latch_self.life != life, 0))
        tide_latch_ask_self();
    return &tide_latch_self;
}

static inline bool tide_latch_take(tide_latch *latch)
{
    unsigned expected = TIDE_LATCH_FREE;
    return atomic_compare_exchange_strong_explicit(latch, &expected, tide_latch_me()->thread,
                                                   memory_order_acquire, memory_order_relaxed) ||
           tide_latch_wait(latch);
}

static inline void tide_latch_release(tide_latch *latch)
{
    atomic_store_explicit(latch, TIDE_LATCH_FREE, memory_order_release);
}

#endif
