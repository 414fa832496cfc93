/*
 * healthy.c - what looks like a leak but is not: phases whose memory is freed each time, and caches.
 */
#include "assess/blame_private.h"
#include "assess/moment.h"
#include "assess/stacks.h"
#include "judge/floor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEALTHY_MOST = 3, /* of each kind */
    NAMES_MOST = 16,  /* phases that are looked at */
    TIMES_MOST = 64,  /* and how often each */
};
static const double LEAST_BYTES = 1 << 20; /* less is not worth a line, */
static const double LEAST_SHARE = 0.02;    /* nor is less than this share of the largest process */
static const double KEPT_MOST = 0.05;      /* of what a phase takes may stay: a list, a result, a log */
static const double PHASE_LONGEST = 0.8;   /* of training: a longer phase is not an excursion */

/* One run of a phase, and when the next one began. */
struct stretch {
    int64_t began_ns, ended_ns, until_ns;
};

/* What a place, an own line of the program, takes in a phase. */
struct place {
    const struct tide_frame *frame; /* NULL: none is known */
    const struct tide_history_site *largest;
    double bytes, largest_bytes;
};

struct finding {
    const struct tide_blaming *g;
    struct stretch *times;
    size_t count;
    struct place *places;
    size_t place_count;
    double *changes;       /* at each look of one run of the phase */
    double by_place, kept; /* over all sites: what each usually takes, and what stays each time on average */
};

/* ---- when it ran */

static void find_times(struct finding *f, int32_t name)
{
    f->count = 0;
    for (size_t i = 0; i < f->g->a->phases.stretch_count; i++) {
        const struct tide_stretch *t = &f->g->a->phases.stretches[i];
        if (t->name != name)
            continue;
        if (f->count)
            f->times[f->count - 1].until_ns = t->from_ns;
        if (f->count == TIMES_MOST)
            break;
        if (t->ended)
            f->times[f->count++] = (struct stretch){t->from_ns, t->to_ns, f->g->to_ns};
    }
    /* If the last run of the phase ends with training, it is not known what stays. */
    if (f->count && f->times[f->count - 1].ended_ns >= f->times[f->count - 1].until_ns)
        f->count--;
}

static bool is_excursion(const struct finding *f)
{
    double inside = 0;
    for (size_t i = 0; i < f->count; i++)
        inside += (double)(f->times[i].ended_ns - f->times[i].began_ns);
    return f->count > 0 && inside <= PHASE_LONGEST * (double)(f->g->to_ns - f->g->from_ns);
}

/* ---- what it took */

static struct place *place_of(struct finding *f, const struct tide_history_site *site)
{
    const struct tide_frame *frame = tide_stack_line(f->g->h, site->stack);
    for (size_t i = 0; i < f->place_count; i++)
        if (f->places[i].frame == frame)
            return &f->places[i];
    f->places[f->place_count] = (struct place){.frame = frame};
    return &f->places[f->place_count++];
}

/* What a site takes is the median over the runs: a run that ended before a look is not a smaller one. */
static void add_site(struct finding *f, const struct tide_history_site *site)
{
    double each[TIMES_MOST] = {0}, kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct stretch *t = &f->times[i];
        const struct tide_history_site_point *p = tide_moment_point(site, t->began_ns);
        double before = p ? fmax((double)p->live_bytes, 0) : 0, lowest, highest, ignored;
        tide_moment_extremes(site, t->began_ns, t->ended_ns, &ignored, &highest);
        tide_moment_extremes(site, t->ended_ns, t->until_ns, &lowest, &ignored);
        each[i] = highest - before;
        kept += fmax(lowest - before, 0) / (double)f->count;
    }
    double taken = tide_kth(each, f->count, f->count / 2);
    if (taken <= 0)
        return;
    struct place *place = place_of(f, site);
    place->bytes += taken;
    f->by_place += taken;
    f->kept += kept;
    if (taken <= place->largest_bytes)
        return;
    place->largest = site;
    place->largest_bytes = taken;
}

/* Returns the most that all sites together took at one moment: less than the sum of their maxima if one site
 * takes what another has freed. */
static double taken_at_once(struct finding *f, const struct stretch *t)
{
    size_t first = tide_history_tick_from(f->g->h, t->began_ns),
           looks = tide_history_tick_from(f->g->h, t->ended_ns) - first + 1;
    memset(f->changes, 0, looks * sizeof *f->changes);
    for (size_t i = 0; i < f->g->h->site_count; i++) {
        const struct tide_history_site *site = &f->g->h->sites[i];
        if (tide_site_is_on_device(site))
            continue;
        const struct tide_history_site_point *p = tide_moment_point(site, t->began_ns);
        double before = p ? fmax((double)p->live_bytes, 0) : 0;
        size_t at = p ? (size_t)(p - site->points) + 1 : 0;
        for (; at < site->point_count && site->points[at].t_ns <= t->ended_ns; at++) {
            double live = fmax((double)site->points[at].live_bytes, 0);
            f->changes[tide_history_tick_from(f->g->h, site->points[at].t_ns) - first] += live - before;
            before = live;
        }
    }
    double level = 0, highest = 0;
    for (size_t i = 0; i < looks; i++)
        highest = fmax(highest, level += f->changes[i]);
    return highest;
}

static double usually_taken(struct finding *f)
{
    double each[TIMES_MOST] = {0};
    for (size_t i = 0; i < f->count; i++)
        each[i] = taken_at_once(f, &f->times[i]);
    return tide_kth(each, f->count, f->count / 2);
}

static const struct place *largest_place(const struct finding *f)
{
    const struct place *largest = NULL;
    for (size_t i = 0; i < f->place_count; i++)
        if (f->places[i].frame && (!largest || f->places[i].bytes > largest->bytes))
            largest = &f->places[i];
    return largest;
}

/* True if the phase frees what it takes; *ret says where that comes from. */
static bool look_at(struct finding *f, int32_t name, double least, struct tide_healthy *ret)
{
    find_times(f, name);
    if (!is_excursion(f))
        return false;
    f->place_count = 0;
    f->by_place = f->kept = 0;
    for (size_t i = 0; i < f->g->h->site_count; i++)
        if (!tide_site_is_on_device(&f->g->h->sites[i]))
            add_site(f, &f->g->h->sites[i]);
    const struct place *place = largest_place(f);
    double taken = usually_taken(f);
    if (!place || taken < least || f->kept > KEPT_MOST * taken)
        return false;
    *ret = (struct tide_healthy){.kind = TIDE_HEALTHY_PHASE,
                                 .site = place->largest,
                                 .bytes = taken,
                                 .part = fmin(place->bytes / f->by_place, 1),
                                 .times = f->count,
                                 .knee_x = NAN};
    tide_history_name(f->g->h, name, ret->phase, sizeof ret->phase);
    return true;
}

static int larger_first(const void *a, const void *b)
{
    const struct tide_healthy *left = a, *right = b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

static double largest_peak(const struct tide_assessment *a)
{
    double peak = 0;
    for (size_t i = 0; i < a->count; i++)
        if (a->judged[i].subject == TIDE_SUBJECT_PROCESS)
            peak = fmax(peak, a->judged[i].verdict.peak);
    return peak;
}

/* Adds phases, largest first. -1: no memory. */
static int add_phases(struct tide_blaming *g)
{
    const struct tide_history *h = g->h;
    const struct tide_assessment *a = g->a;
    struct tide_arena *arena = &g->b->arena;
    struct tide_healthy found[NAMES_MOST];
    struct stretch times[TIMES_MOST];
    struct finding f = {.g = g, .times = times};
    size_t count = 0, looked = 0;
    struct tide_arena_mark mark = tide_arena_mark(arena);
    f.places = tide_arena_take(arena, h->site_count + 1, sizeof *f.places);
    f.changes = tide_arena_take(arena, h->tick_count + 1, sizeof *f.changes);
    if (!f.places || !f.changes)
        return tide_err_set(g->err, "not enough memory for %zu call sites", h->site_count);
    double least = fmax(LEAST_BYTES, LEAST_SHARE * largest_peak(a));
    for (size_t name = 0; name < h->name_count && looked < NAMES_MOST; name++) {
        bool is_phase = false;
        for (size_t i = 0; i < a->phases.stretch_count && !is_phase; i++)
            is_phase = a->phases.stretches[i].name == (int32_t)name;
        looked += is_phase;
        count += is_phase && look_at(&f, (int32_t)name, least, &found[count]);
    }
    tide_arena_rewind(arena, mark);
    /* cppcheck-suppress uninitvar ; as many are set as are read */
    qsort(found, count, sizeof *found, larger_first);
    for (size_t i = 0; i < count && i < HEALTHY_MOST; i++)
        g->b->healthy[g->b->healthy_count++] = found[i];
    return 0;
}

/* True if a runtime mapped the site's memory for its own heap: no cache, whatever it did so far. */
static bool is_managed(const struct tide_history *h, const struct tide_history_site *site)
{
    return site->kind == TIDE_SITE_MMAP && !tide_stack_is_asked_for(h, site->stack);
}

int tide_blaming_find_healthy(struct tide_blaming *g)
{
    struct tide_blame *b = g->b;
    b->healthy = tide_arena_take(&b->arena, 2 * HEALTHY_MOST, sizeof *b->healthy);
    if (!b->healthy)
        return tide_err_set(g->err, "not enough memory for %zu call sites", g->h->site_count);
    if (add_phases(g))
        return -1;
    size_t most = b->healthy_count + HEALTHY_MOST;
    for (size_t i = 0; i < b->count && b->healthy_count < most; i++)
        if (b->culprits[i].bounded && !is_managed(g->h, b->culprits[i].site))
            b->healthy[b->healthy_count++] =
                (struct tide_healthy){.kind = TIDE_HEALTHY_CACHE,
                                      .site = b->culprits[i].site,
                                      .bytes = b->culprits[i].on.verdict.ceiling_bytes,
                                      .part = NAN,
                                      .knee_x = b->culprits[i].on.verdict.knee_x,
                                      .x_is_steps = b->x_is_steps};
    return 0;
}
