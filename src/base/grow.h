/*
 * grow.h - arrays that grow as they fill.
 */
#ifndef TIDE_GROW_H
#define TIDE_GROW_H

#include <stddef.h>

/* Makes room for `count` elements, of at most `most`: the array and its capacity, a size_t, become twice as
 * large as often as it takes. 0, or -1 without memory or room; both are then as they were. The owner frees
 * the array with free(). */
#define TIDE_GROW(array, capacity, count, most)                                                              \
    tide_grow(&(array), &(capacity), (size_t)(count), (most), sizeof *(array))

/* array: the address of a pointer, of whatever type. */
int tide_grow(void *array, size_t *capacity, size_t count, size_t most, size_t size);

#endif
