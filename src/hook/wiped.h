/*
 * wiped.h - the hook's own memory: what a forked child finds empty, and how much there is of all.
 *
 * What the hook knows about a process (which blocks are live, where its table is, who holds a lock) is untrue
 * in a child. It is kept in page-aligned static storage that the kernel zeroes at fork, however the fork was
 * made, so all zeros must be a valid, empty, unlocked state of it.
 */
#ifndef TIDE_WIPED_H
#define TIDE_WIPED_H

#include <stddef.h>
#include <stdint.h>

/* On the type of a structure, so that its size is whole pages too: what shared its last page would be wiped
 * with it. */
#define TIDE_WIPED __attribute__((aligned(4096)))

/* From a constructor, before the others. -1: forks cannot be seen. */
int tide_wiped_init(void);

/* Declares storage of whole pages as described. Not from two threads at once. -1 if neither way to do it
 * works. */
int tide_wiped_declare(void *storage, size_t bytes);

/* Pages for the hook itself, and back: straight from the kernel, not through the functions that the hook
 * stands in front of. NULL if there are none. */
void *tide_wiped_map(size_t bytes);
void tide_wiped_unmap(void *memory, size_t bytes);

/* Memory of the hook that a child inherits: it counts only. Not from two threads at once. */
void tide_wiped_count(void *storage, size_t bytes);

/* Bytes of all of these that this process has to itself: pages that it wrote to. 0 if the kernel does not
 * say. Not from two threads at once. */
uint64_t tide_wiped_resident(void);

#endif
