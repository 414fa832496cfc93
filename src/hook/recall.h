/*
 * recall.h - stacks seen before, recognised by what was read to find their sites.
 *
 * To find the site of a stack, hundreds of words are read, each at an address that the one before it gave:
 * the walk (a rule, a return address, the next rule), the chain of Python frames, the tables. In a program
 * with a large working set each of these reads waits for memory. But a training loop comes by the same
 * stacks again and again, at the same depth. So what was read is noted, with the site it led to. If all of it
 * still holds what it held, the site is the same: the answer is the walk's, without exception. And since the
 * addresses are known beforehand, the processor reads them side by side.
 *
 * Only stacks that were walked to their end without passing a signal handler are kept. Any thread, at any
 * moment, never twice on one thread. Empty in a forked child.
 */
#ifndef TIDE_RECALL_H
#define TIDE_RECALL_H

#include "channel/heap.h"
#include "hook/unwind.h"

#include <stdatomic.h>

enum {
    TIDE_RECALL_SETS = 64,
    TIDE_RECALL_WAYS = 8,    /* stacks that begin alike */
    TIDE_RECALL_FACTS = 507, /* two pages a stack, of which most use one */
    TIDE_RECALL_NARROW = 1   /* in the address of a fact, which is a multiple of four: 32 bits under a mask */
};

/* The word at this address had this value. Narrow: the upper half of the value is a mask. */
struct tide_recall_fact {
    uintptr_t at;
    uint64_t value;
};

/* What is known of a stack before it is walked. */
struct tide_recall_place {
    struct tide_unwind_frame caller;
    uintptr_t stack_high; /* where the stack ends */
    uintptr_t python;     /* the thread's state in the interpreter, and a hash of where it is; 0: none */
    uint64_t python_hash;
    enum tide_heap_kind kind;
};

/* One stack: being noted by one thread, or kept. */
struct __attribute__((aligned(64))) tide_recall_notes {
    atomic_bool busy;
    bool spoiled, needs_bp; /* needs_bp: the caller's frame pointer was used */
    uint16_t count;
    int32_t site; /* -1: none yet */
    uint32_t generation;
    struct tide_recall_place place;
    struct tide_recall_fact facts[TIDE_RECALL_FACTS];
};

_Static_assert(sizeof(struct tide_recall_notes) == 8192, "two pages");

/* From a constructor. -1: forks cannot be seen. */
int tide_recall_init(void);

/* The site, or -1 and where to note what is read from now on; NULL: nowhere. Notes must be given to
 * tide_recall_keep(). */
int32_t tide_recall_find(const struct tide_recall_place *place, struct tide_recall_notes **ret_notes);

/* What was read led to this site; -1: to none. NULL is ignored. */
void tide_recall_keep(struct tide_recall_notes *notes, int32_t site);

/* Forgets all: code was unloaded, or an interpreter came. */
void tide_recall_forget(void);

/* What was read, in that order: each address must be safe to read as long as all facts before it hold. NULL
 * is ignored here too. */
static inline void tide_recall_note(struct tide_recall_notes *notes, uintptr_t at, uint64_t value)
{
    if (!notes)
        return;
    if (notes->count < TIDE_RECALL_FACTS)
        notes->facts[notes->count++] = (struct tide_recall_fact){.at = at, .value = value};
    else
        notes->spoiled = true;
}

static inline void tide_recall_note_bits(struct tide_recall_notes *notes, uintptr_t at, uint32_t mask,
                                         uint32_t value)
{
    tide_recall_note(notes, at | TIDE_RECALL_NARROW, (uint64_t)mask << 32 | (value & mask));
}

/* This stack is not to be kept. */
static inline void tide_recall_spoil(struct tide_recall_notes *notes)
{
    if (notes)
        notes->spoiled = true;
}

#endif
