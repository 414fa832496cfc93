/*
 * floor.h - from a series of samples to its floor: the lowest level that memory returns to within each
 * window.
 */
#ifndef TIDE_FLOOR_H
#define TIDE_FLOOR_H

#include "judge/judge.h"

/* The samples, sorted, with several looks at one x merged. */
struct tide_moments {
    double *x;
    double *low, *high; /* lowest and highest value seen at x */
    double *first, *last;
    int *high_phase; /* name of the phase that ran when the highest was seen; -1: none, or not known */
    size_t count;
};

struct tide_floor {
    double *x; /* where in its window the lowest value was */
    double *bytes;
    bool *kept;     /* false: a bump or a dip, not floor */
    size_t count;   /* windows */
    size_t moments; /* that they are cut from: all, or without the last */
    double noise;   /* standard deviation of the kept floor about its trend, from second differences */
};

/* Both results are allocated from scratch. Return 0, or -1 without points or memory. */
int tide_moments_make(const struct tide_judge_input *input, struct tide_arena *scratch,
                      struct tide_moments *ret, struct tide_err *err);
int tide_floor_make(const struct tide_moments *moments, struct tide_arena *scratch, struct tide_floor *ret,
                    struct tide_err *err);

/* Return the k-th smallest value, and the median, which is NAN if there are none. Both reorder values. */
double tide_kth(double *values, size_t count, size_t k);
double tide_median(double *values, size_t count);

#endif
