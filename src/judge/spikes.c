#include "judge/spikes.h"
#include "judge/thresholds.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLE = 4096, HEIGHTS = 512 };

/* Walks along the kept floor, which is taken as straight between its points and as going on at its ends. */
struct walk {
    const struct tide_floor *f;
    size_t left, right; /* kept windows around the place looked at last; equal when there is only one */
};

static size_t next_kept(const struct tide_floor *f, size_t from)
{
    while (from < f->count && !f->kept[from])
        from++;
    return from;
}

static struct walk begin_walk(const struct tide_floor *f)
{
    struct walk w = {f, next_kept(f, 0), 0};
    if (w.left == f->count)
        w.left = 0;
    size_t right = next_kept(f, w.left + 1);
    w.right = right < f->count ? right : w.left;
    return w;
}

/* The floor at x; x must not decrease between calls. */
static double floor_under(struct walk *w, double x)
{
    const struct tide_floor *f = w->f;
    while (x > f->x[w->right]) {
        size_t further = next_kept(f, w->right + 1);
        if (further >= f->count)
            break;
        w->left = w->right;
        w->right = further;
    }
    double width = f->x[w->right] - f->x[w->left];
    if (!(width > 0))
        return f->bytes[w->left];
    double slope = (f->bytes[w->right] - f->bytes[w->left]) / width;
    if (x < f->x[w->left] || x > f->x[w->right])
        slope = fmax(slope, 0); /* beyond the ends a rise may go on, but noise must not dig a hole */
    return f->bytes[w->left] + slope * (x - f->x[w->left]);
}

/* Typical height of a moment over its floor, from an even choice of moments. */
static double usual_height(const struct tide_moments *m, const struct tide_floor *f)
{
    double heights[SAMPLE];
    size_t stride = m->count / SAMPLE + 1, n = 0;
    struct walk w = begin_walk(f);
    for (size_t i = 0; i < m->count && n < SAMPLE; i += stride)
        heights[n++] = fmax(m->high[i] - floor_under(&w, m->x[i]), 0);
    return tide_median(heights, n);
}

/* The phase of a spike: that in which it was highest; when none ran then, the first beside it. Spikes are
 * asked about in their order, so that phases which ended before one (*over of them in a row) are over for the
 * rest. */
static int phase_of(const struct tide_judge_input *input, int at_top, double from, double to, size_t *over)
{
    if (at_top >= 0)
        return at_top;
    while (*over < input->phase_count && input->phases[*over].to < from)
        ++*over;
    return *over < input->phase_count && input->phases[*over].from <= to ? input->phases[*over].name : -1;
}

static int by_number(const void *a, const void *b)
{
    int left = *(const int *)a, right = *(const int *)b;
    return (left > right) - (left < right);
}

/* Finds the phase that holds most spikes, of equals the first. Sorts them. */
static void find_phase(int *phases, size_t count, struct tide_spikes *spikes)
{
    qsort(phases, count, sizeof *phases, by_number);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && phases[to] == phases[from];)
            to++;
        if (to - from <= spikes->in_phase)
            continue;
        spikes->in_phase = to - from;
        spikes->phase = phases[from];
    }
}

int tide_spikes_find(const struct tide_judge_input *input, const struct tide_moments *m,
                     const struct tide_floor *f, double start_x, double level, struct tide_arena *scratch,
                     struct tide_spikes *ret)
{
    int *phases = tide_arena_take(scratch, m->count / 2 + 1, sizeof *phases);
    if (!phases)
        return -1;
    struct tide_spikes spikes = {.phase = -1};
    double tall = fmax(TIDE_SPIKE_SHARE * level, TIDE_SPIKE_NOISES * usual_height(m, f) / TIDE_MAD_SIGMA);
    double heights[HEIGHTS], top = 0;
    size_t in_phases = 0, above = 0, first = 0, over = 0;
    int at_top = -1;
    bool inside = false;
    struct walk w = begin_walk(f);
    for (size_t i = 0; i <= m->count; i++) {
        bool counts = i < m->count && m->x[i] >= start_x;
        double height = counts ? m->high[i] - floor_under(&w, m->x[i]) : 0;
        bool now = height > tall;
        above += now;
        if (now && !inside) {
            first = i;
            top = 0;
        }
        if (now && height > top) {
            top = height;
            at_top = m->high_phase[i];
        }
        if (inside && !now) {
            int phase = phase_of(input, at_top, m->x[first], m->x[i - 1], &over);
            if (phase >= 0)
                phases[in_phases++] = phase;
            heights[spikes.count % HEIGHTS] = top;
            spikes.largest_bytes = fmax(spikes.largest_bytes, top);
            spikes.count++;
            spikes.returned += i < m->count;
        }
        inside = now;
    }
    if ((double)above > TIDE_SPIKE_MOST * (double)m->count)
        spikes = (struct tide_spikes){.phase = -1};
    if (spikes.count)
        spikes.typical_bytes = tide_median(heights, spikes.count < HEIGHTS ? spikes.count : HEIGHTS);
    if (spikes.count)
        find_phase(phases, in_phases, &spikes);
    *ret = spikes;
    return 0;
}
