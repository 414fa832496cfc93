/*
 * wiped.h - memory that a forked child finds empty.
 *
 * What the hook knows about a process (which blocks are live, where its table is, who holds a lock) is untrue
 * in a child. It is kept in page-aligned static storage that the kernel zeroes at fork, however the fork was
 * made, so all zeros must be a valid, empty, unlocked state of it.
 */
#ifndef TIDE_WIPED_H
#define TIDE_WIPED_H

#include <stddef.h>

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

#endif
