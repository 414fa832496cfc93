#include "base/clock.h"

#include <time.h>

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * TIDE_NS_PER_S + now.tv_nsec;
}

int64_t tide_clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t tide_clock_thread_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t tide_clock_wall_s(void)
{
    return (int64_t)time(NULL);
}
