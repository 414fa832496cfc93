/*
 * random.h - random numbers that depend only on a seed and a place, in whatever order they are asked for, so
 * that a resumed run sees the same numbers as an uninterrupted one.
 */
#ifndef TIDE_RANDOM_H
#define TIDE_RANDOM_H

#include <stdint.h>

static inline uint64_t tide_random_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t tide_random_at(uint64_t seed, uint64_t a, uint64_t b)
{
    return tide_random_mix(tide_random_mix(seed + UINT64_C(0x9e3779b97f4a7c15) * (a + 1)) +
                           UINT64_C(0x632be59bd9b4e019) * (b + 1));
}

/* Uniform in [0, 1). */
static inline double tide_random_unit(uint64_t seed, uint64_t a, uint64_t b)
{
    return (double)(tide_random_at(seed, a, b) >> 11) * 0x1p-53;
}

/* The same numbers in sequence. The two fields are the whole state and may be saved. */
struct tide_random {
    uint64_t seed, drawn;
};

static inline uint64_t tide_random_next(struct tide_random *random)
{
    return tide_random_at(random->seed, random->drawn++, 0);
}

/* Uniform in [0, 1). */
static inline double tide_random_next_unit(struct tide_random *random)
{
    return (double)(tide_random_next(random) >> 11) * 0x1p-53;
}

/* Uniform in 0 .. count - 1; count is below 2^32. */
static inline uint32_t tide_random_below(struct tide_random *random, uint32_t count)
{
    return (uint32_t)((tide_random_next(random) >> 32) * count >> 32);
}

#endif
