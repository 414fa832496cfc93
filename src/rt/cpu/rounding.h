/*
 * rounding.h - stochastic rounding of weights to bf16: up or down with a probability that keeps the mean
 * equal to the number itself.
 *
 * The random bits for a number are a function of the seed, the array and the number's index. A key is drawn
 * for each chunk of numbers and mixed with the index in it.
 */
#ifndef TIDE_ROUNDING_H
#define TIDE_ROUNDING_H

#include "base/random.h"
#include "rt/cpu/inner_loops.h"

enum { TIDE_CHUNK = 1024 };

struct tide_rounding {
    uint32_t start, twist;
};

static inline struct tide_rounding tide_rounding(uint64_t seed, uint64_t array, int64_t chunk)
{
    uint64_t key = tide_random_at(seed, array, (uint64_t)chunk);
    return (struct tide_rounding){(uint32_t)key, (uint32_t)(key >> 32)};
}

/* Rounds number `place` of its chunk. Numbers too large for bf16 become infinite. */
TIDE_INLINE tide_bf16 tide_round(float value, struct tide_rounding r, uint32_t place)
{
    uint32_t x = r.start + place * 0x9e3779b9U;
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= r.twist;
    return (tide_bf16)((tide_float_bits(value) + (x >> 16)) >> 16);
}

#endif
