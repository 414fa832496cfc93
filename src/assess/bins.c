#include "assess/bins.h"

#include <stdlib.h>

static int64_t at(const void *first, size_t stride, size_t i)
{
    return *(const int64_t *)(const void *)((const char *)first + i * stride);
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
            widen(&bin, at(series->values, series->value_stride, next - 1));
        while (next < series->count) {
            int64_t t = at(series->times, series->time_stride, next);
            if (t > series->end_ns || t > edges[i + 1] || (t == edges[i + 1] && !last))
                break;
            widen(&bin, at(series->values, series->value_stride, next++));
        }
        ret_bins[i] = bin;
    }
}

int tide_bins_floor(const struct tide_bin *bins, size_t count, size_t reach, int64_t *ret_floor)
{
    int64_t *lowest = calloc(count + 1, sizeof *lowest); /* of the next `reach` bins of the stretch */
    if (!lowest)
        return -1;
    reach = reach ? reach : 1;
    /* Unknown stretches (before a process began, after it ended) split the series: each is opened alone. */
    for (size_t from = 0, to; from < count; from = to + 1) {
        for (to = from; to < count && bins[to].low >= 0;)
            to++;
        for (size_t i = from; i < to; i++) {
            lowest[i] = bins[i].low;
            for (size_t k = i + 1; k < to && k < i + reach; k++)
                lowest[i] = bins[k].low < lowest[i] ? bins[k].low : lowest[i];
        }
        for (size_t i = from; i < to; i++) {
            ret_floor[i] = lowest[i];
            for (size_t k = i; k-- > from && k + reach > i;)
                ret_floor[i] = lowest[k] > ret_floor[i] ? lowest[k] : ret_floor[i];
        }
        if (to < count)
            ret_floor[to] = TIDE_UNKNOWN;
    }
    free(lowest);
    return 0;
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
