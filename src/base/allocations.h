/*
 * allocations.h - how many allocations this process has made, in builds that count them.
 *
 * Builds without optimisation replace malloc and its relatives by ones that count and call the C library's;
 * builds with a sanitizer are told by it. In others the count stays 0, and comparing two counts says nothing.
 */
#ifndef TIDE_ALLOCATIONS_H
#define TIDE_ALLOCATIONS_H

#include <stdint.h>

/* By all threads since the first call. */
int64_t tide_allocations(void);

#endif
