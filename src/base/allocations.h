/*
 * allocations.h - counts this process's allocations, in builds with a sanitizer.
 *
 * The sanitizer reports each allocation. In other builds the count stays 0 and proves nothing.
 */
#ifndef TIDE_ALLOCATIONS_H
#define TIDE_ALLOCATIONS_H

#include <stdint.h>

/* Allocations of all threads since the first call. */
int64_t tide_allocations(void);

#endif
