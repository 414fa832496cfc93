/*
 * sanitized.h - whether this is a build with a sanitizer: SANITIZED is 0 or 1, for #if and for code.
 *
 * Such a build is slow, and has a malloc that a test cannot replace.
 */
#ifndef SANITIZED_H
#define SANITIZED_H

#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

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
