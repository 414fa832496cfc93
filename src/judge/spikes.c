/*
 * spikes.c - what rises above the floor and comes back.
 */
#include "judge/judge_private.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLE = 4096, HEIGHTS = 512 };

/* A place on the floor, which is straight between its points and is extrapolated at its ends. */
struct walk {
    const double *x, *y;
    size_t count, left; /* the last x asked for is between this point and the next, if there are two */
};

/* The floor at x; x must not decrease between calls. */
static double floor_under(struct walk *w, double x)
{
    while (w->left + 2 < w->count && x > w->x[w->left + 1])
        w->left++;
    size_t left = w->left, right = left + 1 < w->count ? left + 1 : left;
    double width = w->x[right] - w->x[left];
    if (!(width > 0))
        return w->y[left];
    double slope = (w->y[right] - w->y[left]) / width;
    if (x < w->x[left] || x > w->x[right])
        slope = fmax(slope, 0); /* beyond the ends a rise may go on, but a fall may be noise */
    return w->y[left] + slope * (x - w->x[left]);
}

/* Median height of moments over their floor, from evenly chosen moments. */
static double usual_height(const struct tide_judging *j)
{
    const struct tide_moments *m = &j->moments;
    double heights[SAMPLE];
    size_t stride = m->count / SAMPLE + 1, n = 0;
    struct walk w = {j->x, j->y, j->n, 0};
    for (size_t i = 0; i < m->count && n < SAMPLE; i += stride)
        heights[n++] = fmax(m->high[i] - floor_under(&w, m->x[i]), 0);
    return tide_median(heights, n);
}

/* Returns the phase of a spike: the one that ran at its top; if none did, the first one that overlaps it.
 * Spikes come in order of x: phases that ended before one (the first *over) are over for all that follow. */
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

/* Finds the phase that holds most spikes, the lowest index among equals. Sorts phases. */
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

/* The search for spikes: those found so far, and the current one. */
struct finding {
    const struct tide_judge_input *input;
    const struct tide_moments *m;
    struct tide_spikes spikes;
    double heights[HEIGHTS];
    int *phases; /* of the spikes that have one */
    size_t in_phases, over;
    bool inside;
    size_t from, to;       /* moments of the current spike */
    double top, under_top; /* its height, and the floor under its top */
    int at_top;            /* phase */
};

/* Moment i is part of the current spike, or begins one. */
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

/* Ends the current spike where memory is back at `bytes`. If the floor rose by more than memory fell, there
 * was no spike but a step of the floor, seen in the window before its own. */
static void come_back(struct finding *s, double bytes, double floor)
{
    if (s->under_top + s->top - bytes < floor - s->under_top)
        s->inside = false;
    end(s, true);
}

int tide_judging_find_spikes(struct tide_judging *j)
{
    const struct tide_moments *m = &j->moments;
    double warm_x = j->start > 0 ? j->x[j->start - 1] : -INFINITY; /* the last floor point of warm-up */
    struct finding s = {.input = j->input,
                        .m = m,
                        .spikes = {.phase = -1},
                        .phases = tide_arena_take(j->scratch, m->count + 1, sizeof(int))};
    if (!s.phases)
        return -1;
    double usual = usual_height(j);
    double tall = fmax(TIDE_SPIKE_SHARE * j->level, TIDE_SPIKE_NOISES * usual / TIDE_MAD_SIGMA);
    size_t above = 0;
    bool was_low = false; /* what was never low was not seen to rise */
    struct walk w = {j->x + j->start, j->y + j->start, j->n - j->start, 0};
    /* Above a level, spikes are measured from what is reported as it: a lower floor is only a dip. */
    bool level = j->v->kind == TIDE_FLAT && j->v->growth_bytes >= -TIDE_LEVEL_FALL * j->level;
    for (size_t i = 0; i < m->count; i++) {
        if (!(m->x[i] > warm_x))
            continue;
        double floor = level ? j->v->floor_last : floor_under(&w, m->x[i]),
               most = floor + tall; /* the highest that is not a spike */
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
