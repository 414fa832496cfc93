#include "base/clock.h"

#include <time.h>

int64_t tide_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * TIDE_NS_PER_S + now.tv_nsec;
}

int64_t tide_clock_wall_s(void)
{
    return (int64_t)time(NULL);
}
