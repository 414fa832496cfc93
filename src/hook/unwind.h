/*
 * unwind.h - walks a stack by the call frame tables of the code on it, and caches their rules.
 *
 * The rule for an address (where the caller's stack pointer was and where its frame pointer was saved) is
 * computed once from .eh_frame and kept in a table of single words, which threads, forks and signal handlers
 * can read and write at any moment without a lock. A walk over known addresses reads only that table and the
 * stack, and the stack only between the two given bounds. So a wrong rule gives a wrong address, never a
 * fault.
 *
 * x86-64 only: elsewhere a walk gives only the address it began with.
 */
#ifndef TIDE_UNWIND_H
#define TIDE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_unwind_frame {
    uintptr_t pc, sp, bp;
};

/* A stack: addresses [low, high). `other` is the stack where a walk may go on after a signal frame (the
 * thread's own stack, if the signal handler runs on an alternative one). */
struct tide_unwind_stack {
    uintptr_t low, high;
    uintptr_t other_low, other_high;
};

/* The frame of the caller of the function that uses this. That function must have a frame pointer; using
 * __builtin_frame_address gives it one. */
#define TIDE_UNWIND_CALLER                                                                                   \
    ((struct tide_unwind_frame){.pc = (uintptr_t)__builtin_return_address(0),                                \
                                .sp = (uintptr_t)__builtin_frame_address(0) + 16,                            \
                                .bp = *(uintptr_t *)__builtin_frame_address(0)})

/* From a constructor: counts the table of rules among the hook's memory. */
void tide_unwind_init(void);

/* The result of a walk: addresses, innermost first, in the form that heap.h wants. */
struct tide_unwind_trace {
    uint64_t *words;
    size_t room, count;
    bool complete;    /* the outermost frame was reached */
    bool interrupted; /* a signal handler is on the stack */
};

/* Walks from `frame` outwards. The caller sets words and room; at least one word is written. */
void tide_unwind_walk(struct tide_unwind_frame frame, const struct tide_unwind_stack *stack,
                      struct tide_unwind_trace *trace);

/* Forgets all rules. Called when code is unloaded, because other code may be loaded at its addresses. */
void tide_unwind_forget(void);

#endif
