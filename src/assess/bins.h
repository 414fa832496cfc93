/*
 * bins.h - series of memory over time, cut into the columns of a chart.
 *
 * Pure: no I/O, no clock. A series is a view of somebody else's array: value i holds from its time until the
 * time of value i + 1, the last one until end_ns. A bin is one column: the lowest and the highest value that
 * held at some moment of it. An axis of steps is an axis of time with other edges, found through axis.h, so
 * everything below knows only times.
 */
#ifndef TIDE_BINS_H
#define TIDE_BINS_H

#include "assess/axis.h"
#include "assess/history.h"

#include <stddef.h>
#include <stdint.h>

/* Borrowed: valid as long as the arrays are. Negative values are unknown and are left out. */
struct tide_strided {
    const char *times, *values; /* the first int64_t of each */
    size_t time_stride, value_stride;
    size_t count;
    int64_t end_ns;
};

/* A view of one field of an array of structs that have a time `t_ns`. */
#define TIDE_STRIDED(array, field, count, end_ns)                                                            \
    ((struct tide_strided){(const char *)&(array)->t_ns, (const char *)&(array)->field, sizeof *(array),     \
                           sizeof *(array), count, end_ns})

struct tide_bin {
    int64_t low, high; /* bytes; TIDE_UNKNOWN where nothing is known */
};

/* edges has count + 1 times that do not decrease. */
void tide_bins_fill(const struct tide_strided *series, const int64_t *edges, size_t count,
                    struct tide_bin *ret_bins);

/*
 * The floor under the bins: `low` without every rise that comes back within `reach` bins (a morphological
 * opening). A rise that lasts to the last bin stays: it may or may not come back. TIDE_UNKNOWN where low is.
 * Returns 0, or -1 without memory.
 */
int tide_bins_floor(const struct tide_bin *bins, size_t count, size_t reach, int64_t *ret_floor);

/* Returns the step that ran at t_ns, with its fraction; clamped to the first and the last mark. */
double tide_axis_between(const struct tide_axis *axis, int64_t t_ns);
/* Returns the time at which a step was reached, clamped likewise. Both need axis->is_steps. */
int64_t tide_axis_time(const struct tide_axis *axis, double step);

#endif
