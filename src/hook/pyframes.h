/*
 * pyframes.h - Python frames for the native frames of the interpreter's loop (CPython 3.9 to 3.13).
 *
 * The frames are read from the thread's own state: no call that allocates, no profile hook, no global lock of
 * the interpreter. A thread's frames do not change while it is inside an allocation. But its state may be
 * freed meanwhile, if it has let go of the interpreter's lock: when the interpreter ends, it frees the states
 * of all threads but the one that ends it, and those that compute in a library (daemon threads) go on and
 * allocate. So a state is read
 *
 *     as plain memory      by the thread that holds the interpreter's lock, and by the first thread of the
 *                          process, which is the one that ends the interpreter if it began it;
 *     through the kernel   by any other, which cannot fault; and what was read counts only if the interpreter
 *                          was not ending afterwards, before which nothing is freed (5 to 15 us a stack, and
 *                          more before 3.11, where the frames are not next to each other);
 *     not at all           once the interpreter is ending, but by the thread that ends it.
 *
 * Layouts come from a table by version; before the first use the whole chain at hand is read through the
 * kernel, and every object in it must have the type it should have. If not, Python frames are off for good
 * and the stacks stay native.
 */
#ifndef TIDE_PYFRAMES_H
#define TIDE_PYFRAMES_H

#include "hook/object.h"
#include "hook/ledger.h"

/* Whether the object is an interpreter, and if so which: sets up what merging needs. Takes no lock of the
 * loader. Not from two threads at once. */
void tide_pyframes_consider(const struct tide_object *object);

/* The object may have been unloaded, and the interpreter with it. */
void tide_pyframes_unloaded(void);

/* Whether the calling thread began the interpreter and is the process's first: the one that will end it. */
bool tide_pyframes_is_main_thread(void);

/* Copies a native stack to out, with each run of the interpreter's loop replaced by the Python frames it
 * runs, and with other frames of the interpreter left out from the innermost Python frame on. Returns the
 * number of words; *complete becomes false if they did not fit. */
size_t tide_pyframes_merge(struct tide_heap_head *table, const uint64_t *words, size_t count, uint64_t *out,
                           size_t room, bool *complete);

#endif
