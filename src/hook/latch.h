/*
 * latch.h - a lock held for a few instructions. No thread waits for it for ever.
 *
 * The holder may lose the processor while it holds the latch, on a busy machine for a long time; then others
 * wait, as for any lock. But the holder may also never release it: its signal handler jumped out of the hook,
 * or the handler runs long or waits for something. So the latch stores which thread holds it. A holder that
 * sleeps, has ended, or has used more processor time than any work under a latch takes is given up: the
 * waiting thread leaves its work undone, and from then on every other thread does so at once, until the
 * holder releases the latch after all.
 *
 * One thread never takes a latch twice: the caller's guard prevents it. errno is not preserved.
 */
#ifndef TIDE_LATCH_H
#define TIDE_LATCH_H

#include "hook/wiped.h"

#include <stdatomic.h>
#include <stdbool.h>

/* The number of the thread that holds it, or TIDE_LATCH_FREE or TIDE_LATCH_ABANDONED. All zeros is free. */
typedef atomic_uint tide_latch;

enum { TIDE_LATCH_FREE = 0, TIDE_LATCH_ABANDONED = 1 << 30 }; /* thread numbers are below 2^22 */

/* From a constructor. -1: memory cannot be wiped at fork. */
int tide_latch_init(void);

/* The calling thread, and whether it is the first thread of its process. */
struct tide_latch_self {
    unsigned thread; /* 0: not asked yet */
    unsigned life;   /* the process in which it was asked; a forked child has another life */
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
