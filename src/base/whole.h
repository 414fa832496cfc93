/*
 * whole.h - integer minimum, maximum and division that rounds up.
 */
#ifndef TIDE_WHOLE_H
#define TIDE_WHOLE_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t tide_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tide_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t tide_smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t tide_larger_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* count / by, rounded up. */
static inline int64_t tide_ceiling(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

#endif
