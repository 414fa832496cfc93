#include "judge/floor.h"
#include "judge/thresholds.h"

#include <math.h>
#include <stdlib.h>

enum { STRAY_AMONG = 5 }; /* windows: itself and the four next to it */

struct pair {
    double x, bytes;
    int phase;
};

static int by_x(const void *a, const void *b)
{
    double left = ((const struct pair *)a)->x, right = ((const struct pair *)b)->x;
    return (left > right) - (left < right);
}

/* Hoare's selection, as Wirth writes it. */
double tide_kth(double *values, size_t count, size_t k)
{
    long low = 0, high = (long)count - 1, wanted = (long)k;
    while (low < high) {
        double pivot = values[wanted];
        long i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i > j)
                break;
            double swap = values[i];
            values[i++] = values[j];
            values[j--] = swap;
        }
        low = j < wanted ? i : low;
        high = wanted < i ? j : high;
    }
    return values[k];
}

double tide_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    double upper = tide_kth(values, count, count / 2);
    if (count % 2)
        return upper;
    return (upper + tide_kth(values, count, count / 2 - 1)) / 2;
}

int tide_moments_make(const struct tide_judge_input *input, struct tide_arena *scratch,
                      struct tide_moments *ret, struct tide_err *err)
{
    size_t n = 0;
    bool sorted = true;
    struct pair *pairs = tide_arena_take(scratch, input->count ? input->count : 1, sizeof *pairs);
    if (!pairs)
        return tide_err_set(err, "not enough memory to judge %zu samples", input->count);
    for (size_t i = 0; i < input->count; i++) {
        if (!isfinite(input->x[i]) || !isfinite(input->bytes[i]))
            continue;
        pairs[n] = (struct pair){input->x[i], input->bytes[i], input->phase_of ? input->phase_of[i] : -1};
        sorted = sorted && (n == 0 || pairs[n - 1].x <= pairs[n].x);
        n++;
    }
    if (n == 0)
        return tide_err_set(err, "there is no sample to judge");
    if (!sorted)
        qsort(pairs, n, sizeof *pairs, by_x);
    struct tide_moments m = {.x = tide_arena_take(scratch, n, sizeof(double)),
                             .low = tide_arena_take(scratch, n, sizeof(double)),
                             .high = tide_arena_take(scratch, n, sizeof(double)),
                             .first = tide_arena_take(scratch, n, sizeof(double)),
                             .last = tide_arena_take(scratch, n, sizeof(double)),
                             .high_phase = tide_arena_take(scratch, n, sizeof(int))};
    if (!m.x || !m.low || !m.high || !m.first || !m.last || !m.high_phase)
        return tide_err_set(err, "not enough memory to judge %zu samples", input->count);
    for (size_t i = 0; i < n; i++) {
        if (m.count && m.x[m.count - 1] == pairs[i].x) {
            m.low[m.count - 1] = fmin(m.low[m.count - 1], pairs[i].bytes);
            if (pairs[i].bytes > m.high[m.count - 1])
                m.high_phase[m.count - 1] = pairs[i].phase;
            m.high[m.count - 1] = fmax(m.high[m.count - 1], pairs[i].bytes);
            m.last[m.count - 1] = pairs[i].bytes;
            continue;
        }
        m.x[m.count] = pairs[i].x;
        m.low[m.count] = m.high[m.count] = m.first[m.count] = m.last[m.count] = pairs[i].bytes;
        m.high_phase[m.count] = pairs[i].phase;
        m.count++;
    }
    *ret = m;
    return 0;
}

/* The floor of moments [from, to): index of the lowest, or of the second lowest if there are enough. */
static size_t lowest_of(const struct tide_moments *m, size_t from, size_t to)
{
    size_t first = from, second = from;
    for (size_t i = from + 1; i < to; i++) {
        if (m->low[i] < m->low[first]) {
            second = first;
            first = i;
        } else if (second == first || m->low[i] < m->low[second]) {
            second = i;
        }
    }
    return to - from >= TIDE_SECOND_LOWEST_FROM ? second : first;
}

static void cut_windows(const struct tide_moments *m, size_t count, double *x, double *bytes)
{
    for (size_t w = 0; w < count; w++) {
        size_t from = w * m->count / count, to = (w + 1) * m->count / count;
        size_t lowest = lowest_of(m, from, to);
        x[w] = m->x[lowest];
        bytes[w] = m->low[lowest];
    }
}

/* Standard deviation of the noise, from the median second difference of unevenly spaced neighbours. Trends
 * and rare jumps do not affect it. */
static double noise_of(const double *x, const double *bytes, size_t count, double *scratch)
{
    size_t n = 0;
    for (size_t i = 1; i + 1 < count; i++) {
        double span = x[i + 1] - x[i - 1];
        if (!(span > 0))
            continue;
        double right = (x[i] - x[i - 1]) / span, left = 1 - right;
        double off = bytes[i] - (left * bytes[i - 1] + right * bytes[i + 1]);
        scratch[n++] = fabs(off) / sqrt(1 + left * left + right * right);
    }
    double median = tide_median(scratch, n);
    return isnan(median) ? 0 : median / TIDE_MAD_SIGMA;
}

/* Lowest value within reach of i, on the side of reach's sign; INFINITY if there is none. */
static double lowest_within(const double *bytes, size_t count, size_t i, long reach)
{
    double lowest = INFINITY;
    long step = reach < 0 ? -1 : 1;
    for (long d = step; d != reach + step; d += step) {
        long at = (long)i + d;
        if (at < 0 || at >= (long)count)
            break;
        lowest = fmin(lowest, bytes[at]);
    }
    return lowest;
}

/* Longest run of windows that were left out. */
static size_t longest_bump(const struct tide_floor *f)
{
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < f->count; i++) {
        run = f->kept[i] ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/*
 * The run may end inside a spike, of which only one side is seen. Leaves out the last windows, about as many
 * as the longest bump before them had, if they are above the trend that led up to them by more than that
 * trend ever moved.
 */
static void drop_end_bump(struct tide_floor *f, double tall, double *scratch)
{
    size_t reach = longest_bump(f) + TIDE_END_BUMP, back = f->count / 4, last = f->count;
    if (f->count <= 12 || reach + back + 2 > f->count)
        return;
    for (size_t stop = f->count - reach; stop < f->count; stop++) {
        double before = NAN, wobble = 0;
        size_t n = 0;
        for (size_t i = stop - back; i < stop; i++) {
            if (!f->kept[i])
                continue;
            if (!isnan(before)) {
                scratch[n++] = f->bytes[i] - before;
                wobble = fmax(wobble, fabs(f->bytes[i] - before));
            }
            before = f->bytes[i];
        }
        if (n < 3 || !f->kept[stop - 1])
            continue;
        double usual = fmax(tide_median(scratch, n), 0);
        bool apart = true;
        for (size_t i = stop; i < f->count && apart; i++)
            apart =
                f->bytes[i] - before - usual * (double)(i - stop + 1) > fmax(tall, TIDE_END_WOBBLES * wobble);
        if (apart) {
            last = stop;
            break;
        }
    }
    for (size_t i = last; i < f->count; i++)
        f->kept[i] = false;
}

/* How far window i is above the line through two others. */
static double above_line(const struct tide_floor *f, size_t i, size_t a, size_t b)
{
    double slope = (f->bytes[b] - f->bytes[a]) / (f->x[b] - f->x[a]);
    return f->bytes[i] - f->bytes[a] - slope * (f->x[i] - f->x[a]);
}

/* True if window i alone is above the line on which the four next to it lie. A look that came late, because
 * the machine was busy, shows what the program held some steps later; in a steep rise that is not a bump. */
static bool is_stray(const struct tide_floor *f, size_t i, double tall)
{
    size_t first = i < 2 ? 0 : i + 3 > f->count ? f->count - STRAY_AMONG : i - 2, near[4], n = 0;
    for (size_t k = first; k < first + STRAY_AMONG; k++)
        if (k != i)
            near[n++] = k;
    double off = above_line(f, i, near[0], near[3]);
    double alone = (f->x[i] - f->x[i - (i > 0)]) / (f->x[f->count - 1] - f->x[0]);
    /* The last look may have seen the program end: one low window ends no rise unless it spans much. */
    if (i + 1 == f->count && alone < TIDE_STRAY_LAST)
        off = fabs(off);
    double straight = fmax(TIDE_STRAY_STRAIGHT * off, tall / 2);
    return off > tall && fabs(above_line(f, near[1], near[0], near[3])) <= straight &&
           fabs(above_line(f, near[2], near[0], near[3])) <= straight;
}

static void drop_strays(struct tide_floor *f, double tall)
{
    for (size_t i = 0; f->count > STRAY_AMONG && i < f->count; i++)
        if (is_stray(f, i, tall))
            f->kept[i] = false;
}

/* True if window i lies on the line of the two after it: a low there is where a ramp begins. */
static bool begins_ramp(const struct tide_floor *f, size_t i, double tall)
{
    return i + 2 < f->count && fabs(above_line(f, i, i + 1, i + 2)) <= tall;
}

/* A window is a bump when memory was lower both a little before it and a little after it, by more than the
 * noise. */
static void drop_bumps(struct tide_floor *f, double *scratch)
{
    long reach = lround((double)f->count * TIDE_BUMP_SHARE);
    double tall = fmax(TIDE_BUMP_NOISES * f->noise, 1);
    for (size_t i = 0; i < f->count; i++) {
        double before = lowest_within(f->bytes, f->count, i, reach < 1 ? -1 : -reach);
        double after = lowest_within(f->bytes, f->count, i, reach < 1 ? 1 : reach);
        f->kept[i] = !(isfinite(before) && isfinite(after) && f->bytes[i] > fmax(before, after) + tall);
    }
    drop_end_bump(f, tall, scratch);
    for (size_t i = 1; i < f->count; i++) {
        double next = i + 1 < f->count ? f->bytes[i + 1]
                                       : f->bytes[i - 1]; /* the last look may have seen the program end */
        if (f->bytes[i] < fmin(f->bytes[i - 1], next) - TIDE_DIP_BUMPS * tall && !begins_ramp(f, i, tall))
            f->kept[i] = false;
    }
    drop_strays(f, tall);
}

static size_t kept_of(const struct tide_floor *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++)
        kept += f->kept[i];
    return kept;
}

static void cut_floor(const struct tide_moments *m, size_t count, struct tide_floor *f, double *scratch)
{
    f->count = count;
    cut_windows(m, count, f->x, f->bytes);
    f->noise = noise_of(f->x, f->bytes, count, scratch);
    drop_bumps(f, scratch);
}

/*
 * Chooses as many windows as the noise allows. A window shorter than the collector's period or than a spike
 * may not reach the floor. Then the floor is rough, or much of it is bumps, and wider windows are tried.
 */
static void choose_windows(const struct tide_moments *m, struct tide_floor *f, double *scratch)
{
    static const size_t counts[] = {TIDE_WINDOWS_MOST, 64, 48, 32, 24, 16, TIDE_WINDOWS_LEAST};
    enum { CHOICES = sizeof counts / sizeof *counts };
    if (m->count <= 2 * TIDE_WINDOWS_LEAST)
        return cut_floor(m, m->count, f, scratch);
    double rough[CHOICES], smoothest = INFINITY;
    for (size_t c = 0; c < CHOICES; c++) {
        rough[c] = INFINITY;
        if (counts[c] > m->count || counts[c] > TIDE_WINDOWS_MOST)
            continue;
        cut_windows(m, counts[c], f->x, f->bytes);
        rough[c] = noise_of(f->x, f->bytes, counts[c], scratch);
        smoothest = fmin(smoothest, rough[c]);
    }
    for (size_t c = 0; c < CHOICES; c++) {
        if (!isfinite(rough[c]) || rough[c] > smoothest * TIDE_ROUGHNESS_SLACK)
            continue;
        cut_floor(m, counts[c], f, scratch);
        if ((double)kept_of(f) >= TIDE_KEPT_LEAST * (double)f->count)
            return;
    }
    cut_floor(m, TIDE_WINDOWS_LEAST, f, scratch);
}

/* True if the last moment lies below those before it, by a fall larger than any before. A program frees
 * memory as it ends, and one look may have seen that: it tells nothing of the floor, and would make a leak
 * before it a bump. */
static bool ends_low(const struct tide_moments *m)
{
    double largest = 0;
    size_t last = m->count - 1;
    if (m->count <= 2 * TIDE_WINDOWS_LEAST)
        return false;
    for (size_t i = 1; i < last; i++)
        largest = fmax(largest, m->low[i - 1] - m->low[i]);
    for (size_t i = last - TIDE_END_MOMENTS; i < last; i++)
        if (m->low[last] >= m->low[i])
            return false;
    return m->low[last - 1] - m->low[last] > largest;
}

int tide_floor_make(const struct tide_moments *moments, struct tide_arena *scratch, struct tide_floor *ret,
                    struct tide_err *err)
{
    struct tide_moments cut = *moments;
    cut.count -= ends_low(moments);
    moments = &cut;
    size_t room = moments->count <= 2 * TIDE_WINDOWS_LEAST ? moments->count : TIDE_WINDOWS_MOST;
    struct tide_floor f = {.x = tide_arena_take(scratch, room, sizeof(double)),
                           .bytes = tide_arena_take(scratch, room, sizeof(double)),
                           .kept = tide_arena_take(scratch, room, sizeof(bool))};
    double *work = tide_arena_take(scratch, room, sizeof(double));
    if (!f.x || !f.bytes || !f.kept || !work)
        return tide_err_set(err, "not enough memory to judge %zu moments", moments->count);
    choose_windows(moments, &f, work);
    f.moments = moments->count;
    *ret = f;
    return 0;
}
