/*
 * clock.h - the three clocks. Intervals and recordings use the first, which never jumps; the second is what
 * the calling thread has computed; the third is only for showing a date.
 */
#ifndef TIDE_CLOCK_H
#define TIDE_CLOCK_H

#include <stdint.h>

enum { TIDE_NS_PER_US = 1000, TIDE_NS_PER_MS = 1000000, TIDE_NS_PER_S = 1000000000 };

/* CLOCK_MONOTONIC, the clock that marks in the channel carry too. */
int64_t tide_clock_ns(void);

/* CPU time of the calling thread. */
int64_t tide_clock_thread_ns(void);

/* Seconds since 1970. */
int64_t tide_clock_wall_s(void);

#endif
