#include "assess/bins.h"

#include <stdlib.h>
#include <string.h>

static int64_t load(const char *base, size_t stride, size_t i)
{
    int64_t value;
    memcpy(&value, base + i * stride, sizeof value);
    return value;
}

static int64_t time_of(const struct tide_strided *series, size_t i)
{
    return load(series->times, series->time_stride, i);
}

static int64_t value_of(const struct tide_strided *series, size_t i)
{
    return load(series->values, series->value_stride, i);
}

size_t tide_strided_from(const struct tide_strided *series, size_t from, int64_t t_ns)
{
    size_t low = from, stride = 1;
    while (low < series->count && time_of(series, low) < t_ns) {
        from = low + 1;
        low += stride;
        stride *= 2;
    }
    size_t high = low < series->count ? low : series->count;
    while (from < high) {
        size_t middle = from + (high - from) / 2;
        if (time_of(series, middle) < t_ns)
            from = middle + 1;
        else
            high = middle;
    }
    return from;
}

static void widen(struct tide_bin *bin, int64_t value)
{
    if (value < 0)
        return;
    if (bin->low < 0 || value < bin->low)
        bin->low = value;
    if (value > bin->high)
        bin->high = value;
}

void tide_bins_fill(const struct tide_strided *series, const int64_t *edges, size_t count,
                    struct tide_bin *ret_bins)
{
    size_t next = count ? tide_until(series->times, series->time_stride, series->count, edges[0]) : 0;
    for (size_t i = 0; i < count; i++) {
        struct tide_bin bin = {TIDE_UNKNOWN, TIDE_UNKNOWN};
        bool last = i + 1 == count; /* the last column includes its right edge */
        if (next > 0 && edges[i] <= series->end_ns)
            widen(&bin, value_of(series, next - 1));
        while (next < series->count) {
            int64_t t = time_of(series, next);
            if (t > series->end_ns || t > edges[i + 1] || (t == edges[i + 1] && !last))
                break;
            widen(&bin, value_of(series, next++));
        }
        ret_bins[i] = bin;
    }
}

/* For each i, finds the smallest (sign 1) or largest (sign -1) of `reach` values from i on, in the direction
 * of `forward`. A deque of indices whose values increase keeps it linear. */
static void slide(const int64_t *from, size_t count, size_t reach, int sign, bool forward, size_t *deque,
                  int64_t *to)
{
    size_t head = 0, tail = 0;
    for (size_t k = 0; k < count; k++) {
        size_t i = forward ? count - 1 - k : k;
        while (tail > head && sign * from[deque[tail - 1]] >= sign * from[i])
            tail--;
        deque[tail++] = i;
        size_t oldest = deque[head];
        if ((forward ? oldest - i : i - oldest) >= reach)
            head++;
        to[i] = from[deque[head]];
    }
}

int tide_bins_floor(const struct tide_bin *bins, size_t count, size_t reach, int64_t *ret_floor)
{
    if (count == 0)
        return 0;
    size_t *deque = calloc(count, sizeof *deque);
    int64_t *known = calloc(count, sizeof *known), *eroded = calloc(count, sizeof *eroded);
    int bad = !deque || !known || !eroded ? -1 : 0;
    /* Unknown stretches (before a process began, after it ended) split the series: each is opened alone. */
    for (size_t from = 0; !bad && from < count;) {
        size_t to = from;
        while (to < count && bins[to].low >= 0) {
            known[to - from] = bins[to].low;
            to++;
        }
        if (to == from) {
            ret_floor[from++] = TIDE_UNKNOWN;
            continue;
        }
        slide(known, to - from, reach ? reach : 1, 1, true, deque, eroded);
        slide(eroded, to - from, reach ? reach : 1, -1, false, deque, ret_floor + from);
        from = to;
    }
    free(deque);
    free(known);
    free(eroded);
    return bad;
}

double tide_axis_between(const struct tide_axis *axis, int64_t t_ns)
{
    size_t n = tide_until(axis->t_ns, sizeof *axis->t_ns, axis->count, t_ns);
    if (n == 0)
        return axis->step[0];
    if (n == axis->count)
        return axis->step[n - 1];
    double share = (double)(t_ns - axis->t_ns[n - 1]) / (double)(axis->t_ns[n] - axis->t_ns[n - 1]);
    return axis->step[n - 1] + share * (axis->step[n] - axis->step[n - 1]);
}

int64_t tide_axis_time(const struct tide_axis *axis, double step)
{
    size_t n = 0, high = axis->count;
    while (n < high) {
        size_t middle = n + (high - n) / 2;
        if (axis->step[middle] <= step)
            n = middle + 1;
        else
            high = middle;
    }
    if (n == 0)
        return axis->t_ns[0];
    if (n == axis->count)
        return axis->t_ns[n - 1];
    double share = (step - axis->step[n - 1]) / (axis->step[n] - axis->step[n - 1]);
    return axis->t_ns[n - 1] + (int64_t)(share * (double)(axis->t_ns[n] - axis->t_ns[n - 1]));
}
