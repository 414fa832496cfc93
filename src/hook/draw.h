/*
 * draw.h - when to take a sample, and what it then counts for.
 *
 * Each allocated byte is sampled with probability 1/R, so the bytes between two samples follow an exponential
 * distribution with mean R, and a block of s bytes is sampled with probability p = 1 - exp(-s/R). A sampled
 * block counts as s/p bytes and 1/p blocks, so on average a block counts as s bytes and 1 block (docs/HOOK.md
 * derives it). Plain arithmetic, because the hook must not pull libm into the program's process.
 */
#ifndef TIDE_DRAW_H
#define TIDE_DRAW_H

#include <stdint.h>
#include <string.h>

/* xorshift64*; the state is never 0. */
static inline uint64_t tide_draw_bits(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Uniform in (0, 1]. */
static inline double tide_draw_unit(uint64_t *state)
{
    return (double)((tide_draw_bits(state) >> 11) + 1) * 0x1p-53;
}

/* Natural logarithm of a positive normal number, to about 1e-11. */
static inline double tide_draw_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(1023) << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1) / (m + 1), q = s * s; /* |s| < 0.172 */
    double series = 1 + q * (1. / 3 + q * (1. / 5 + q * (1. / 7 + q * (1. / 9 + q * (1. / 11 + q / 13)))));
    return exponent * 0.6931471805599453 + 2 * s * series;
}

/* 1 - exp(-x) for x >= 0, to about 1e-12. */
static inline double tide_draw_probability(double x)
{
    if (x > 40)
        return 1;
    int halvings = 0;
    while (x > 0.25) {
        x *= 0.5;
        halvings++;
    }
    double p = 1 - x / 10;
    for (int k = 9; k > 1; k--)
        p = 1 - x / k * p;
    p *= x;
    while (halvings--)
        p = p * (2 - p); /* 1 - (1 - p)^2 */
    return p;
}

/* Bytes until the next sample. */
static inline int64_t tide_draw_next(uint64_t *state, double interval)
{
    double bytes = -interval * tide_draw_log(tide_draw_unit(state));
    return bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX / 2;
}

/* Rounds up or down at random, so that the mean is `value`. */
static inline uint64_t tide_draw_round(uint64_t *state, double value)
{
    uint64_t whole = (uint64_t)value;
    return whole + (tide_draw_unit(state) <= value - (double)whole);
}

#endif
