/*
 * clock.h - three clocks: a monotonic one for intervals and recordings, the CPU time of the calling thread,
 * and the wall clock, which is only for showing dates.
 */
#ifndef TIDE_CLOCK_H
#define TIDE_CLOCK_H

#include <stdint.h>

enum { TIDE_NS_PER_US = 1000, TIDE_NS_PER_MS = 1000000, TIDE_NS_PER_S = 1000000000 };

/* CLOCK_MONOTONIC, which marks in the channel use too. */
int64_t tide_clock_ns(void);

/* CPU time of the calling thread. */
int64_t tide_clock_thread_ns(void);

/* Seconds since 1970. */
int64_t tide_clock_wall_s(void);

#endif
