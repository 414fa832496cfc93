/*
 * drop.c - memory that is freed at once and stays free: a model that is no longer needed, a cache that is
 * dropped. What was before it says nothing about what follows.
 */
#include "judge/judge_private.h"

#include <math.h>

/* True if the floor falls to where it hardly was before. A sawtooth falls back to where it often was. A
 * program is small as it starts, so the floor may have been that low for a part of the time. */
static bool leaves_all_before(const struct tide_judging *j, const struct tide_drop *fall)
{
    double top = j->y[fall->top], bottom = j->y[fall->bottom], low = 0;
    for (size_t i = 0; i < fall->top; i++)
        if (j->y[i] < bottom + TIDE_DROP_BELOW * (top - bottom))
            low += j->x[i + 1] - j->x[i];
    return low <= TIDE_DROP_UNUSUAL * (j->x[fall->top] - j->x[0]);
}

/* Returns the least fall from a point that is a drop. */
static double least_drop(const struct tide_judging *j, double from_bytes)
{
    return fmax(fmax(TIDE_CHANGE_NOISES * j->floor.noise, TIDE_CHANGE_LEAST), TIDE_DROP_SHARE * from_bytes);
}

bool tide_judging_find_drop(const struct tide_judging *j, struct tide_drop *ret_drop)
{
    struct tide_drop low = {0}, high = {0};
    double largest = 0, second = 0, rest = TIDE_DROP_REST * least_drop(j, j->level);
    for (size_t i = 0, next; i + 1 < j->n; i = next) {
        struct tide_drop fall = {i, i, low.bottom, false};
        while (fall.bottom + 1 < j->n && fall.bottom < i + TIDE_DROP_RUN &&
               j->y[fall.bottom] - j->y[fall.bottom + 1] > rest)
            fall.bottom++;
        next = fall.bottom > i ? fall.bottom : i + 1;
        double bytes = j->y[fall.top] - j->y[fall.bottom];
        fall.is_low = bytes >= least_drop(j, j->y[fall.top]) && leaves_all_before(j, &fall);
        if (fall.is_low) {
            low = fall;
            continue;
        }
        high = bytes > largest ? fall : high;
        second = fmax(second, fmin(bytes, largest));
        largest = fmax(largest, bytes);
    }
    *ret_drop = low.is_low ? low : high;
    double fall = j->y[ret_drop->top] - j->y[ret_drop->bottom], other = low.is_low ? largest : second;
    return fall >= fmax(least_drop(j, j->y[ret_drop->top]), TIDE_DROP_ALONE * other) &&
           ret_drop->bottom > j->start;
}

bool tide_judging_rises_since(const struct tide_judging *j, const struct tide_drop *drop)
{
    double bottom = j->y[drop->bottom], fall = j->y[drop->top] - bottom, rise = j->y[j->n - 1] - bottom;
    double steepest = 0, lowest = INFINITY;
    for (size_t i = 0; i <= drop->top; i++)
        lowest = fmin(lowest, j->y[i]);
    for (size_t i = drop->bottom + 1; i < j->n; i++)
        steepest = fmax(steepest, j->y[i] - j->y[i - 1]);
    bool sawtooth = fabs(lowest - bottom) < TIDE_DROP_REST * fall;
    bool dip = steepest > rise / 2 && rise > fall / 2;
    return tide_judging_matters(j, rise) && !sawtooth && !dip;
}

/* Returns the index of the first moment after the drop. */
static size_t moment_of(const struct tide_judging *j, const struct tide_drop *drop)
{
    double half = (j->y[drop->top] + j->y[drop->bottom]) / 2;
    size_t i = 0;
    while (j->moments.x[i] <= j->x[drop->top] ||
           (j->moments.x[i] < j->x[drop->bottom] && j->moments.low[i] >= half))
        i++;
    return i;
}

/* The end of a ramp is left out of the floor, but not of what was freed. */
void tide_judging_say_drop(struct tide_judging *j, const struct tide_drop *drop)
{
    size_t first = moment_of(j, drop);
    double before = INFINITY;
    for (size_t i = first, n = 0; i-- > 0 && n < TIDE_DROP_MOMENTS; n++)
        before = fmin(before, j->moments.low[i]);
    j->v->drop_x = j->moments.x[first];
    j->v->drop_bytes = fmax(before, j->y[drop->top]) - j->y[drop->bottom];
}

/* Returns at which rate the floor usually rises between two points, over a quarter of the way: what it jumps
 * by in between does not count. */
static double usual_rate(const struct tide_judging *j, size_t first, size_t last)
{
    size_t apart = (last - first) / 4 > 1 ? (last - first) / 4 : 1, n = 0;
    double *rates = tide_arena_take(j->scratch, last - first + 1, sizeof *rates);
    for (size_t i = first; rates && i + apart <= last; i++)
        rates[n++] = (j->y[i + apart] - j->y[i]) / (j->x[i + apart] - j->x[i]);
    return n ? tide_median(rates, n) : INFINITY;
}

bool tide_judging_may_drop_again(const struct tide_judging *j, const struct tide_drop *drop)
{
    size_t first = tide_judging_behind_warmup(j), last = j->n - 1;
    first = first > drop->before ? first : drop->before;
    if (first + TIDE_DROP_WINDOWS > drop->top)
        first = drop->top > TIDE_DROP_WINDOWS ? drop->top - TIDE_DROP_WINDOWS : 0;
    double rise = j->y[last] - j->y[drop->bottom], rate = rise / (j->x[last] - j->x[drop->bottom]);
    bool level = drop->top >= TIDE_DROP_WINDOWS && usual_rate(j, first, drop->top) <= TIDE_DROP_LEVEL * rate;
    bool few = j->n - drop->bottom < 2 * TIDE_FEWEST_WINDOWS;
    size_t from = 0;
    while (j->moments.x[from] < j->x[drop->bottom])
        from++;
    bool falls =
        tide_judging_retreat(j->moments.low + from, j->moments.count - from) > TIDE_LEAK_RETREAT * rise;
    return few || falls || (!level && rise <= TIDE_DROP_PAST * j->v->drop_bytes);
}
