/*
 * grow.h - arrays that grow as they fill.
 */
#ifndef TIDE_GROW_H
#define TIDE_GROW_H

#include <stddef.h>

/* Makes room for `count` elements, at most `most`, by doubling the array and its capacity (a size_t) as often
 * as necessary. 0, or -1 if out of memory or over `most`, leaving both as they were. The owner frees the
 * array with free(). */
#define TIDE_GROW(array, capacity, count, most)                                                              \
    tide_grow(&(array), &(capacity), (size_t)(count), (most), sizeof *(array))

/* array: the address of a pointer of any type. */
int tide_grow(void *array, size_t *capacity, size_t count, size_t most, size_t size);

#endif
