/*
 * pyframes.h - Python frames in place of the native frames of the interpreter's loop (CPython 3.9 to 3.13).
 *
 * The frames are read from the thread's own state, without a call that allocates, a profile hook or the
 * global interpreter lock. A thread's frames do not change while it is inside an allocation. But if it does
 * not hold the interpreter's lock, its state may be freed meanwhile: an interpreter that ends frees the
 * states of all threads but the one that ends it, while daemon threads that compute in a library go on and
 * allocate. So a state is read
 *
 *     as plain memory      by the thread that holds the interpreter's lock, and by the first thread of the
 *                          process if it began the interpreter, because then it also ends it;
 *     through the kernel   by any other thread, because such a read cannot fault. It counts only if the
 *                          interpreter was not ending afterwards, because nothing is freed before that
 *                          (5 to 15 us a stack, more before 3.11, where frames are not adjacent);
 *     not at all           once the interpreter is ending, except by the thread that ends it.
 *
 * Layouts come from a table by version. Before the first use, the whole chain of frames is read through the
 * kernel, and every object in it must have the expected type. If one has not, Python frames are off for good
 * and stacks stay native.
 */
#ifndef TIDE_PYFRAMES_H
#define TIDE_PYFRAMES_H

#include "hook/object.h"
#include "hook/ledger.h"

/* If the object is an interpreter, finds its version and sets up what merging needs. Does not take the
 * loader's lock. Not from two threads at once. */
void tide_pyframes_consider(const struct tide_object *object);

/* The object may have been unloaded, and the interpreter with it. */
void tide_pyframes_unloaded(void);

/* True if the calling thread is the process's first and began the interpreter: it will also end it. */
bool tide_pyframes_is_main_thread(void);

/* Copies a native stack to `out`. Each run of the interpreter's loop is replaced by the Python frames it
 * runs, and other frames of the interpreter that are further out than the innermost Python frame are dropped.
 * Returns the number of words; *complete becomes false if they did not fit. */
size_t tide_pyframes_merge(struct tide_heap_head *table, const uint64_t *words, size_t count, uint64_t *out,
                           size_t room, bool *complete);

#endif
