/*
 * unwind.h - walk a stack by the call frame tables of the code on it, with what was learned kept.
 *
 * The rule for an address (how to find the caller's frame: where its stack pointer was, where its frame
 * pointer was saved) is computed once from .eh_frame and kept in a table of single words, which threads,
 * forks and signal handlers can read and write at any moment without a lock. A walk over known addresses
 * reads nothing but that table and the stack itself, and the stack only between the two bounds it was given,
 * so a wrong rule gives a wrong address, never a fault.
 *
 * x86-64 only: elsewhere a walk gives the one address it began with.
 */
#ifndef TIDE_UNWIND_H
#define TIDE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_unwind_frame {
    uintptr_t pc, sp, bp;
};

/* A stack: addresses [low, high). `other` is where a walk that leaves it through a signal frame may go on
 * (the thread's own stack, when a handler runs on an alternative one). */
struct tide_unwind_stack {
    uintptr_t low, high;
    uintptr_t other_low, other_high;
};

/* The frame of the caller of the function this is used in, which must have a frame pointer of its own: using
 * __builtin_frame_address gives it one. */
#define TIDE_UNWIND_CALLER                                                                                   \
    ((struct tide_unwind_frame){.pc = (uintptr_t)__builtin_return_address(0),                                \
                                .sp = (uintptr_t)__builtin_frame_address(0) + 16,                            \
                                .bp = *(uintptr_t *)__builtin_frame_address(0)})

/* Memory for what is learned. -1 if the system gives none: then nothing can be walked. */
int tide_unwind_init(void);

/* What a walk gives: addresses, innermost first, as heap.h wants them. */
struct tide_unwind_trace {
    uint64_t *words;
    size_t room, count;
    bool complete;    /* the outermost frame was reached */
    bool interrupted; /* a signal handler is on the stack */
};

/* Walks from `frame` outwards. words and room are the caller's; at least one word is written. */
void tide_unwind_walk(struct tide_unwind_frame frame, const struct tide_unwind_stack *stack,
                      struct tide_unwind_trace *trace);

/* Forgets all rules: code was unloaded, and other code may come where it was. */
void tide_unwind_forget(void);

#endif
