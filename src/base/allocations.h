/*
 * allocations.h - how many allocations this process has made, in builds that count them.
 *
 * Builds with a sanitizer are told by it. In others the count stays 0, and comparing two counts says nothing.
 */
#ifndef TIDE_ALLOCATIONS_H
#define TIDE_ALLOCATIONS_H

#include <stdint.h>

/* By all threads since the first call. */
int64_t tide_allocations(void);

#endif
