/*
 * failing_malloc.h - makes the Nth allocation fail: what survives that survives a full machine.
 *
 * Replaces malloc, calloc and realloc of the test program. A sanitizer has its own: there HAVE_FAILING_MALLOC
 * is 0 and the tests that need it are left out.
 */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include "sanitized.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define HAVE_FAILING_MALLOC (!SANITIZED)

#if HAVE_FAILING_MALLOC
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static long failing_countdown = -1; /* allocations that still succeed; below 0: all do */
static bool failing_happened;

/* From now on the allocation after the next `good` ones fails, and every later one too. */
static inline void failing_arm(long good)
{
    failing_countdown = good;
    failing_happened = false;
}

/* Whether any failed since failing_arm(). */
static inline bool failing_disarm(void)
{
    failing_countdown = -1;
    return failing_happened;
}

static inline bool failing_works(void)
{
    void *(*volatile take)(size_t) = malloc; /* the compiler thinks it knows what malloc touches */
    failing_arm(0);
    void *memory = take(1);
    failing_disarm();
    free(memory);
    return !memory;
}

#define NEEDS_FAILING_MALLOC()                                                                               \
    do {                                                                                                     \
        if (!failing_works())                                                                                \
            skip();                                                                                          \
    } while (0)

static bool failing_now(void)
{
    if (failing_countdown < 0)
        return false;
    if (failing_countdown > 0) {
        failing_countdown--;
        return false;
    }
    failing_happened = true;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    return failing_now() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return failing_now() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return failing_now() ? NULL : __libc_realloc(old, bytes);
}
#endif

#endif
