/*
 * drop.c - memory that is freed at once and stays free: a model that is no longer needed, a cache that is
 * dropped. What was before it says nothing about what follows.
 */
#include "judge/judge_private.h"

#include <math.h>

/* Returns the largest fall of the floor over a few windows, and in *ret_second the largest elsewhere. */
static struct tide_drop largest_fall(const struct tide_judging *j, double *ret_second)
{
    struct tide_drop drop = {0, 0};
    size_t top = 0;
    *ret_second = 0;
    for (size_t i = 1; i < j->n; i++) {
        bool falls = j->y[i] < j->y[i - 1];
        if (!falls || i - top > TIDE_DROP_RUN)
            top = falls ? i - 1 : i;
        double fall = j->y[top] - j->y[i], largest = j->y[drop.top] - j->y[drop.bottom];
        if (fall > largest) {
            *ret_second = drop.top == top ? *ret_second : largest;
            drop = (struct tide_drop){top, i};
        } else if (top != drop.top)
            *ret_second = fmax(*ret_second, fall);
    }
    return drop;
}

bool tide_judging_find_drop(const struct tide_judging *j, struct tide_drop *ret_drop)
{
    double second, lowest = INFINITY;
    struct tide_drop drop = largest_fall(j, &second);
    double fall = j->y[drop.top] - j->y[drop.bottom];
    for (size_t i = 0; i <= drop.top; i++)
        lowest = fmin(lowest, j->y[i]);
    while (drop.bottom > drop.top + 1 && j->y[drop.bottom - 1] - j->y[drop.bottom] < TIDE_DROP_REST * fall)
        drop.bottom--; /* noise after it */
    double least = fmax(fmax(TIDE_CHANGE_NOISES * j->floor.noise, TIDE_CHANGE_LEAST),
                        fmax(TIDE_DROP_SHARE * j->level, TIDE_DROP_ALONE * second));
    bool below = lowest - j->y[drop.bottom] >= TIDE_DROP_BELOW * fall; /* a sawtooth only undoes its rise */
    *ret_drop = drop;
    return fall >= least && below && drop.bottom > j->start && j->n - drop.bottom >= TIDE_FEWEST_WINDOWS;
}

double tide_judging_drop_x(const struct tide_judging *j, const struct tide_drop *drop)
{
    double half = (j->y[drop->top] + j->y[drop->bottom]) / 2;
    for (size_t i = 0; i < j->moments.count; i++)
        if (j->moments.x[i] > j->x[drop->top] && j->moments.low[i] < half)
            return j->moments.x[i];
    return j->x[drop->bottom];
}

/* Returns by how much memory came down again after a place, at the most. */
static double retreat_after(const struct tide_judging *j, double x)
{
    double highest = -INFINITY, most = 0;
    for (size_t i = 0; i < j->moments.count; i++) {
        if (j->moments.x[i] < x)
            continue;
        highest = fmax(highest, j->moments.low[i]);
        most = fmax(most, highest - j->moments.low[i]);
    }
    return most;
}

bool tide_judging_may_drop_again(const struct tide_judging *j, const struct tide_drop *drop)
{
    size_t first = tide_judging_behind_warmup(j), last = j->n - 1;
    if (first + TIDE_DROP_WINDOWS > drop->top)
        first = drop->top > TIDE_DROP_WINDOWS ? drop->top - TIDE_DROP_WINDOWS : 0;
    double rise = j->y[last] - j->y[drop->bottom], rate = rise / (j->x[last] - j->x[drop->bottom]),
           before = (j->y[drop->top] - j->y[first]) / fmax(j->x[drop->top] - j->x[first], 1e-300);
    bool level = drop->top >= TIDE_DROP_WINDOWS && before <= TIDE_DROP_LEVEL * rate;
    bool few =
        j->n - drop->bottom<2 * TIDE_FEWEST_WINDOWS, falls = retreat_after(j, tide_judging_drop_x(j, drop))>
                       TIDE_LEAK_RETREAT *
                   rise;
    return few || falls || (!level && rise <= j->y[drop->top] - j->y[drop->bottom]);
}
