/*
 * random.h - randomness that is a function of its place: the same number for the same seed and place, in
 * whatever order they are asked for, so that a run that is resumed sees what it would have seen.
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

#endif
