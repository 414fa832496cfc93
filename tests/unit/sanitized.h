/*
 * sanitized.h - whether this is a build with a sanitizer: SANITIZED is 0 or 1, for #if and for code.
 *
 * Such a build is slow, and has a malloc that a test cannot replace.
 */
#ifndef SANITIZED_H
#define SANITIZED_H

#include "base/sanitizer.h"

#include <stdbool.h>
#include <stdlib.h>

#define SANITIZED TIDE_SANITIZED

/* Whether a test should try each way once rather than all together: here numbers take ten to a hundred times
 * as long. TIDEMARK_VALGRIND: under valgrind, or on an emulated processor. */
static inline bool is_slow(void)
{
    return SANITIZED || getenv("TIDEMARK_VALGRIND");
}

/* Whether a test may take its time, as in make check-long. */
static inline bool is_long(void)
{
    return getenv("TIDEMARK_LONG") != NULL;
}

#endif
