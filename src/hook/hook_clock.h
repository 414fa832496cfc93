/*
 * hook_clock.h - any clock in nanoseconds, for the hook, which may not use base/clock.h.
 */
#ifndef TIDE_HOOK_CLOCK_H
#define TIDE_HOOK_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tide_hook_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif
