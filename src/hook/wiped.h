/*
 * wiped.h - the hook's own memory: storage that is empty in a forked child, and the size of all of it.
 *
 * What the hook knows about a process (which blocks are live, where its table is, who holds a lock) is wrong
 * in a child. So it is kept in page-aligned static storage that the kernel zeroes at fork, however the fork
 * was made. All zeros must therefore be a valid, empty, unlocked state.
 */
#ifndef TIDE_WIPED_H
#define TIDE_WIPED_H

#include <stddef.h>
#include <stdint.h>

/* Goes on the type of a structure, so that its size is a multiple of the page size too. Otherwise other data
 * in its last page would be wiped with it. */
#define TIDE_WIPED __attribute__((aligned(4096)))

/* From a constructor, before the other init functions. -1: memory cannot be wiped at fork. */
int tide_wiped_init(void);

/* Declares storage of whole pages to be wiped at fork. Not from two threads at once. -1 if neither way to do
 * it works. */
int tide_wiped_declare(void *storage, size_t bytes);

/* Allocates and frees pages for the hook itself, directly from the kernel and not through the functions that
 * the hook replaces. NULL if there are none. */
void *tide_wiped_map(size_t bytes);
void tide_wiped_unmap(void *memory, size_t bytes);

/* Declares memory of the hook that a child inherits: it is only counted. Not from two threads at once. */
void tide_wiped_count(void *storage, size_t bytes);

/* Returns the bytes of all this memory that are private to this process: the pages it wrote to. 0 if the
 * kernel does not say. Not from two threads at once. */
uint64_t tide_wiped_resident(void);

#endif
