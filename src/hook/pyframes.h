/*
 * pyframes.h - Python frames for the native frames of the interpreter's loop (CPython 3.9 to 3.13).
 *
 * The frames are read from the thread's own state: no call that allocates, no profile hook, no global lock of
 * the interpreter. A thread's frames do not change while it is inside an allocation, so reading them needs no
 * more protection than being on that thread. Layouts come from a table by version; before the first use the
 * whole chain at hand is read through the kernel, which cannot fault, and every object in it must have the
 * type it should have. If not, Python frames are off for good and the stacks stay native.
 */
#ifndef TIDE_PYFRAMES_H
#define TIDE_PYFRAMES_H

#include "hook/object.h"
#include "hook/ledger.h"
#include "hook/recall.h"

/* Whether the object is an interpreter, and if so which: sets up what merging needs. Takes no lock of the
 * loader. Not from two threads at once. */
void tide_pyframes_consider(const struct tide_object *object);

/* Copies a native stack to out, with each run of the interpreter's loop replaced by the Python frames it
 * runs, and with other frames of the interpreter left out from the innermost Python frame on. Returns the
 * number of words; *complete becomes false if they did not fit. What was read of the frames goes to notes. */
size_t tide_pyframes_merge(struct tide_heap_head *table, const uint64_t *words, size_t count, uint64_t *out,
                           size_t room, struct tide_recall_notes *notes, bool *complete);

/* The thread's state in the interpreter, and a hash of what its innermost frames are executing; 0: none, or
 * not known to be what it should be yet. */
uintptr_t tide_pyframes_whereabouts(uint64_t *ret_hash);

#endif
