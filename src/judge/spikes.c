/*
 * spikes.c - what rises above the floor and comes back.
 */
#include "judge/judge_private.h"

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

/* Takes no notice of what the floor was before from_x. */
static struct walk begin_walk(const struct tide_floor *f, double from_x)
{
    struct walk w = {f, next_kept(f, 0), 0};
    while (w.left < f->count && f->x[w.left] < from_x)
        w.left = next_kept(f, w.left + 1);
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
    struct walk w = begin_walk(f, -INFINITY);
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

/* Spikes as they are found, one after the other. */
struct finding {
    const struct tide_judge_input *input;
    const struct tide_moments *m;
    struct tide_spikes spikes;
    double heights[HEIGHTS];
    int *phases; /* of those that have one */
    size_t in_phases, over;
    bool inside;
    size_t from, to;       /* moments of the one that goes on */
    double top, under_top; /* its height, and the floor under that */
    int at_top;            /* phase */
};

/* It is as high as this over the floor at moment i. */
static void go_on(struct finding *s, size_t i, double height, double floor)
{
    if (!s->inside) {
        s->inside = true;
        s->from = i;
        s->top = 0;
    }
    s->to = i;
    if (height > s->top) {
        s->top = height;
        s->under_top = floor;
        s->at_top = s->m->high_phase[i];
    }
}

static void end(struct finding *s, bool returned)
{
    if (!s->inside)
        return;
    int phase = phase_of(s->input, s->at_top, s->m->x[s->from], s->m->x[s->to], &s->over);
    if (phase >= 0)
        s->phases[s->in_phases++] = phase;
    s->heights[s->spikes.count % HEIGHTS] = s->top;
    s->spikes.largest_bytes = fmax(s->spikes.largest_bytes, s->top);
    s->spikes.count++;
    s->spikes.returned += returned;
    s->inside = false;
}

/* It ends at these bytes, over this floor. Where the floor came up by more than memory came down, a step of
 * the floor was seen in the window before its own, and no spike. */
static void come_back(struct finding *s, double bytes, double floor)
{
    if (s->under_top + s->top - bytes < floor - s->under_top)
        s->inside = false;
    end(s, true);
}

int tide_judging_find_spikes(struct tide_judging *j)
{
    const struct tide_moments *m = &j->moments;
    double warm_x = j->start > 0 ? j->x[j->start - 1] : -INFINITY; /* the last place that is warm-up */
    struct finding s = {.input = j->input,
                        .m = m,
                        .spikes = {.phase = -1},
                        .phases = tide_arena_take(j->scratch, m->count + 1, sizeof(int))};
    if (!s.phases)
        return -1;
    double usual = usual_height(m, &j->floor);
    double tall = fmax(TIDE_SPIKE_SHARE * j->level, TIDE_SPIKE_NOISES * usual / TIDE_MAD_SIGMA);
    size_t above = 0;
    bool was_low = false; /* only what was low before was seen to rise */
    struct walk w = begin_walk(&j->floor, j->v->start_x);
    for (size_t i = 0; i < m->count; i++) {
        if (!(m->x[i] > warm_x))
            continue;
        /* Those of a level are counted from the level that is said: where its floor is lower is a dip. */
        double floor = j->v->kind == TIDE_FLAT ? j->v->floor_last : floor_under(&w, m->x[i]),
               most = floor + tall; /* that is not a spike */
        bool began_low = m->first[i] <= most, ended_low = m->last[i] <= most;
        was_low = was_low || began_low;
        if (began_low)
            come_back(&s, m->first[i], floor);
        if (was_low && m->high[i] > most) {
            go_on(&s, i, m->high[i] - floor, floor);
            above++;
        }
        if (ended_low)
            come_back(&s, m->last[i], floor);
        was_low = was_low || ended_low;
    }
    end(&s, false);
    if ((double)above > TIDE_SPIKE_MOST * (double)m->count)
        s.spikes = (struct tide_spikes){.phase = -1};
    if (s.spikes.count) {
        s.spikes.typical_bytes = tide_median(s.heights, s.spikes.count < HEIGHTS ? s.spikes.count : HEIGHTS);
        find_phase(s.phases, s.in_phases, &s.spikes);
    }
    j->v->spikes = s.spikes;
    return 0;
}
