/*
 * drop.c - memory that is freed at once and stays free: a model that is no longer needed, a cache that is
 * dropped. What was before it says nothing about what follows.
 */
#include "judge/judge_private.h"

#include <math.h>

/* Finds the last fall of the floor within a few windows, of at least that much, to where it never was before;
 * if there is none, the largest. Returns the largest of all others that are not low. */
static double find_fall(const struct tide_judging *j, double least, struct tide_drop *ret_drop)
{
    struct tide_drop low = {0}, high = {0};
    double largest = 0, second = 0, lowest = INFINITY; /* up to the top of a fall */
    for (size_t i = 1, top = 0, counted = 0; i < j->n; i++) {
        if (j->y[i] >= j->y[i - 1]) {
            top = i;
            continue;
        }
        if (i - top > TIDE_DROP_RUN)
            top = i - 1;
        if (i + 1 < j->n && j->y[i + 1] < j->y[i] && i + 1 - top <= TIDE_DROP_RUN)
            continue; /* it goes on */
        for (; counted <= top; counted++)
            lowest = fmin(lowest, j->y[counted]);
        double fall = j->y[top] - j->y[i];
        bool below = lowest - j->y[i] >= TIDE_DROP_BELOW * fall; /* a sawtooth only undoes its rise */
        if (below && fall >= fmax(least, TIDE_DROP_SHARE * j->y[top])) {
            low = (struct tide_drop){top, i, low.bottom, true};
            continue;
        }
        second = fmax(second, fmin(fall, largest));
        if (fall > largest)
            high = (struct tide_drop){.top = top, .bottom = i};
        largest = fmax(fall, largest);
    }
    *ret_drop = low.is_low ? low : high;
    return low.is_low ? largest : second;
}

bool tide_judging_find_drop(const struct tide_judging *j, struct tide_drop *ret_drop)
{
    double least = fmax(TIDE_CHANGE_NOISES * j->floor.noise, TIDE_CHANGE_LEAST);
    struct tide_drop drop;
    double other = find_fall(j, least, &drop), fall = j->y[drop.top] - j->y[drop.bottom];
    while (drop.bottom > drop.top + 1 &&
           j->y[drop.bottom - 1] - j->y[drop.bottom] < fmin(least, TIDE_DROP_REST * fall))
        drop.bottom--; /* noise after it */
    *ret_drop = drop;
    return fall >= fmax(fmax(least, TIDE_DROP_SHARE * j->y[drop.top]), TIDE_DROP_ALONE * other) &&
           drop.bottom > j->start;
}

bool tide_judging_rises_since(const struct tide_judging *j, const struct tide_drop *drop)
{
    double bottom = j->y[drop->bottom], fall = j->y[drop->top] - bottom, rise = j->y[j->n - 1] - bottom;
    double steepest = 0, lowest = INFINITY;
    for (size_t i = 0; i <= drop->top; i++)
        lowest = fmin(lowest, j->y[i]);
    for (size_t i = drop->bottom + 1; i < j->n; i++)
        steepest = fmax(steepest, j->y[i] - j->y[i - 1]);
    bool sawtooth = fabs(lowest - bottom)<TIDE_DROP_REST * fall, dip = steepest> rise / 2 && rise > fall / 2;
    return tide_judging_matters(j, rise) && !sawtooth && !dip;
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
    first = first > drop->before ? first : drop->before;
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
