#include "assess/blame_private.h"
#include "assess/moment.h"
#include "assess/stacks.h"
#include "base/text.h"
#include "judge/doubling.h"
#include "judge/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_GROWTH = 16 * 1024, /* bytes: below that a site is not judged */
    CULPRITS_MOST = 1000,
    SAMPLES_LEAST = 64, /* with fewer, a site's shape is not believed: sqrt(64) is 12 % of noise */
};

struct candidate {
    size_t site;
    double bytes, blocks;
};

static int larger_first(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

/* Returns the most that a site held in a stretch of the phase minus what it held when that began. */
static double in_phase(const struct tide_blaming *g, const struct tide_history_site *site, double *ret_blocks)
{
    double most = 0;
    *ret_blocks = 0;
    for (size_t i = 0; i < g->a->phases.stretch_count; i++) {
        const struct tide_stretch *t = &g->a->phases.stretches[i];
        if (t->name != g->phase)
            continue;
        double before = tide_moment_live(g->h, site, t->from_ns, NULL);
        for (size_t k = 0; k < site->point_count; k++) {
            const struct tide_history_site_point *p = &site->points[k];
            if (p->t_ns < t->from_ns || p->t_ns > t->to_ns || (double)p->live_bytes - before <= most)
                continue;
            most = (double)p->live_bytes - before;
            *ret_blocks = (double)p->live_blocks;
        }
    }
    return most;
}

/* Fills g->phase. */
static int find_phase(struct tide_blaming *g)
{
    const struct tide_phases *phases = &g->a->phases;
    char shown[64];
    for (size_t i = 0; i < phases->stretch_count; i++) {
        g->phase = phases->stretches[i].name;
        if (!strcmp(g->h->names[g->phase], g->options->phase))
            return 0;
    }
    tide_err_set(g->err, "the recording has no phase '%s'",
                 tide_text_shown(g->options->phase, shown, sizeof shown));
    if (phases->count == 0)
        return tide_err_hint(g->err, "the program did not mark any");
    return tide_err_hint(g->err, "one of its phases is '%s'; 'tidemark show --what phases' lists all",
                         tide_history_name(g->h, g->phase, shown, sizeof shown));
}

/* Returns the growth of a site while training, or since its process began to leak if that is more: a leak
 * that began late is no growth of the eighths that tide_moment_growth() compares. */
static double growth_of(const struct tide_blaming *g, const struct tide_history_site *site)
{
    double growth = tide_moment_growth(site, g->from_ns, g->to_ns);
    for (size_t i = 0; i < g->a->count; i++) {
        const struct tide_judged *j = &g->a->judged[i];
        bool late =
            j->process == site->process && j->verdict.kind == TIDE_LEAK && isfinite(j->verdict.since_x);
        int64_t since_ns = late ? tide_assess_time_of(g->a, j->verdict.since_x) : TIDE_UNKNOWN;
        if (since_ns != TIDE_UNKNOWN && since_ns < g->to_ns)
            growth = fmax(growth, tide_moment_growth(site, since_ns, g->to_ns));
    }
    return growth;
}

/* --- memory that rises for a while and is freed again --------------------------------------------------- */

/* True if the answer is about memory that is held for a while, not about memory that is kept. */
static bool is_of_peaks(const struct tide_judged *worst)
{
    return worst->crest.epochs > 0 || (worst->live_known && worst->retention.freed_again);
}

/* True if a site may have a part in the rise. On a GPU only tensors do: when they take more of a segment, the
 * rest of it shrinks. */
static bool may_rise(const struct tide_blaming *g, const struct tide_history_site *site)
{
    bool gpu = g->a->judged[0].subject == TIDE_SUBJECT_GPU;
    bool there = gpu ? site->kind == TIDE_SITE_TENSOR : !tide_site_is_on_device(site);
    return there && tide_blaming_is_about(g, site->process);
}

/* Returns the first epoch if peaks rise from epoch to epoch; else the last look but one before memory rose:
 * sites are read after the memory of their process, and may have risen by then. */
static int64_t begin_of_rise(const struct tide_blaming *g)
{
    const struct tide_judged *worst = &g->a->judged[0];
    int64_t t_ns = g->from_ns;
    for (size_t i = 0; worst->crest.epochs > 0 && i < g->h->mark_count; i++)
        if (g->h->marks[i].kind == TIDE_MARK_EPOCH)
            return g->h->marks[i].t_ns;
    for (size_t i = 1; worst->crest.epochs == 0 && i < g->h->tick_count; i++)
        if (tide_axis_at(g->a->axis, g->h->ticks[i].t_ns) <= worst->retention.before_x)
            t_ns = g->h->ticks[i - 1].t_ns;
    return t_ns > g->from_ns ? t_ns : g->from_ns;
}

/* Fills g->rise_ns, and finds the peak of a rise: the highest value, if peaks rise from epoch to epoch; else
 * the moment nearest to what the verdict says is held now, because the highest value may be another one, as
 * while a file is read. */
static int find_rise(struct tide_blaming *g, int64_t *ret_t_ns)
{
    g->rise_ns = begin_of_rise(g);
    const struct tide_judged *worst = &g->a->judged[0];
    double *changes = calloc(g->h->tick_count + 1, sizeof *changes), sum = 0, nearest = INFINITY;
    if (!changes)
        return tide_err_set(g->err, "not enough memory for %zu looks", g->h->tick_count);
    for (size_t i = 0; i < g->h->site_count; i++)
        if (may_rise(g, &g->h->sites[i]))
            tide_moment_add_changes(g->h, &g->h->sites[i], changes);
    for (size_t i = 0; i < g->h->tick_count; i++) {
        int64_t t_ns = g->h->ticks[i].t_ns;
        sum += changes[i];
        double off = worst->crest.epochs > 0 ? -sum : fabs(worst->retention.crest_last - sum);
        if (t_ns < g->rise_ns || t_ns > g->to_ns || !(off < nearest))
            continue;
        nearest = off;
        *ret_t_ns = t_ns;
    }
    free(changes);
    return 0;
}

/* Returns what a site held before peaks rose: its least since then if they rise by epochs; else its most. */
static double held_before_rise(const struct tide_blaming *g, const struct tide_history_site *site,
                               int64_t at_ns)
{
    double least, most;
    bool epochs = g->a->judged[0].crest.epochs > 0;
    if (epochs)
        tide_moment_range(g->h, site, g->rise_ns, at_ns, &least, &most);
    else
        tide_moment_extremes(site, g->from_ns, g->rise_ns, &least, &most);
    return epochs ? least : most;
}

/* Returns how much more a site held at a time than before the rise; 0: it has no part in it. */
static double rise_of(const struct tide_blaming *g, const struct tide_history_site *site, int64_t at_ns,
                      double *ret_blocks)
{
    if (!may_rise(g, site))
        return 0;
    return tide_moment_live(g->h, site, at_ns, ret_blocks) - held_before_rise(g, site, at_ns);
}

/* --- the search ---------------------------------------------------------------------------------------- */

static double measure(const struct tide_blaming *g, const struct tide_history_site *site, int64_t at_ns,
                      double *ret_blocks)
{
    const struct tide_history_site_point *last;
    switch (g->b->by) {
    case TIDE_BLAME_GROWTH:
        if (tide_stack_is_of_hook(g->h, site->stack))
            return 0;
        last = tide_moment_point(site, g->to_ns);
        *ret_blocks = last ? (double)last->live_blocks : 0;
        return growth_of(g, site);
    case TIDE_BLAME_PHASE:
        return in_phase(g, site, ret_blocks);
    case TIDE_BLAME_BETWEEN:
        return tide_moment_live(g->h, site, g->to_ns, ret_blocks) -
               tide_moment_live(g->h, site, g->from_ns, NULL);
    case TIDE_BLAME_RISE:
        return rise_of(g, site, at_ns, ret_blocks);
    default:
        return tide_moment_live(g->h, site, at_ns, ret_blocks);
    }
}

/* Returns how many samples a site's growth by that many bytes rests on; INFINITY: every block is seen. */
static double samples_of(const struct tide_blaming *g, const struct tide_culprit *c, double bytes)
{
    double size = c->blocks > 0 ? c->live_bytes / c->blocks : 0;
    double p = size > 0 ? tide_moment_sampled(g->h, c->site, size) : 1;
    return p < 1 ? bytes * p / size : INFINITY;
}

/* Adds to the error of the line through the samples that of their number in the stretch of the rate. */
static void widen_interval(const struct tide_blaming *g, struct tide_culprit *c)
{
    struct tide_verdict *v = &c->on.verdict;
    double slope = v->slope, samples = samples_of(g, c, slope * (v->x_last - v->slope_x));
    if (!isfinite(samples) || !(samples > 0))
        return;
    double below = slope * tide_poisson_below95(samples) / samples,
           above = slope * tide_poisson_above95(samples) / samples;
    v->slope_low = fmax(slope - tide_error_of_both(slope - v->slope_low, below), 0);
    v->slope_high = slope + tide_error_of_both(v->slope_high - slope, above);
}

/* True if a site came to hold more by larger blocks, as a container does, rather than by more blocks. */
static bool blocks_become_larger(const struct tide_history_site *site)
{
    const struct tide_history_site_point *first = NULL, *last = NULL;
    for (size_t i = 0; i < site->point_count; i++) {
        const struct tide_history_site_point *p = &site->points[i];
        if (p->live_bytes <= 0 || p->live_blocks <= 0)
            continue;
        first = first ? first : p;
        last = p;
    }
    if (!first)
        return false;
    double bytes = (double)last->live_bytes / (double)first->live_bytes;
    double blocks = (double)last->live_blocks / (double)first->live_blocks;
    return bytes > blocks * blocks; /* most of the growth is in the size of blocks */
}

/* A container that grows by a factor is no jump and has not stopped, however rare its jumps have become. */
static void find_container(struct tide_blaming *g, struct tide_culprit *c)
{
    struct tide_verdict *v = &c->on.verdict;
    struct tide_judge_input series = {.x = c->on.x, .bytes = c->on.bytes, .count = c->on.count};
    struct tide_doubling doubling;
    if (v->kind == TIDE_FLAT || v->kind == TIDE_SPIKES || v->shape == TIDE_SHAPE_LINEAR ||
        c->samples < SAMPLES_LEAST || !blocks_become_larger(c->site) ||
        !tide_doubling_find(&series, &g->b->arena, &doubling))
        return;
    v->kind = TIDE_LEAK;
    v->shape = TIDE_SHAPE_STAIRCASE;
    v->slope = doubling.slope;
    v->slope_x = v->start_x;
    v->slope_low = doubling.slope_low;
    v->slope_high = doubling.slope_high;
    c->factor = doubling.factor;
}

/* True if the process of a site rose and stopped with it: then few samples are enough to believe it. */
static bool stops_with_process(const struct tide_blaming *g, const struct tide_culprit *c)
{
    const double near = 0.15; /* of the run */
    const struct tide_verdict *v = &c->on.verdict;
    for (size_t i = 0; i < g->a->count; i++) {
        const struct tide_judged *j = &g->a->judged[i];
        if (j->subject == TIDE_SUBJECT_PROCESS && j->process == c->process && !j->own_pages)
            return v->kind == TIDE_PLATEAU && j->verdict.kind == TIDE_PLATEAU &&
                   c->bytes > j->verdict.growth_bytes / 2 &&
                   fabs(v->knee_x - j->verdict.knee_x) < near * (v->x_last - v->x_first);
    }
    return false;
}

/* Judges a site on the assessment's axis and fills what follows from that. */
static int judge_site(struct tide_blaming *g, struct tide_culprit *c)
{
    const struct tide_history_site *site = c->site;
    struct tide_level *levels = malloc((site->point_count + 1) * sizeof *levels);
    if (!levels)
        return tide_err_set(g->err, "not enough memory to judge %zu call sites", g->h->site_count);
    levels[0] = (struct tide_level){0, 0}; /* before its first sample a site held nothing */
    for (size_t i = 0; i < site->point_count; i++)
        levels[i + 1] =
            (struct tide_level){site->points[i].t_ns, fmax((double)site->points[i].live_bytes, 0)};
    c->on = (struct tide_judged){
        .subject = TIDE_SUBJECT_PROCESS, .process = c->process, .device = TIDE_UNKNOWN, .limit_bytes = NAN};
    int judged = tide_assess_levels(g->a, levels, site->point_count + 1, 0, g->to_ns + 1, &c->on, g->err);
    free(levels);
    if (judged < 0)
        return -1;
    c->judged = judged > 0;
    if (!c->judged)
        return 0;
    c->samples = samples_of(g, c, c->bytes);
    find_container(g, c);
    bool has_end = c->on.verdict.kind == TIDE_PLATEAU || c->on.verdict.kind == TIDE_JUMP;
    double told = c->arenas ? c->blocks : c->samples; /* which line needs the next arena is as random */
    if (has_end && told < SAMPLES_LEAST && !stops_with_process(g, c))
        c->on.verdict.kind = TIDE_UNDECIDED; /* a few missing samples look like an end */
    c->bounded = c->on.verdict.kind == TIDE_PLATEAU;
    if (c->on.verdict.kind != TIDE_LEAK)
        return 0;
    c->bytes_per_x = c->on.verdict.slope;
    widen_interval(g, c);
    if (c->blocks > 0 && c->live_bytes > 0)
        c->blocks_per_x = c->bytes_per_x * c->blocks / c->live_bytes;
    return 0;
}

static void fill_culprit(const struct tide_blaming *g, const struct candidate *from, struct tide_culprit *c)
{
    const struct tide_history_site *site = &g->h->sites[from->site];
    *c = (struct tide_culprit){.site = site,
                               .process = site->process,
                               .bytes = from->bytes,
                               .blocks = from->blocks,
                               .samples = INFINITY};
    c->bytes_per_x = c->blocks_per_x = c->share = c->freed_share = c->factor = NAN;
    tide_site_process_name(g->h, site, c->process_name, sizeof c->process_name);
    bool is_level = g->b->by == TIDE_BLAME_PEAK || g->b->by == TIDE_BLAME_END;
    const struct tide_history_site_point *first = is_level ? NULL : tide_moment_point(site, g->from_ns),
                                         *last = tide_moment_point(site, g->to_ns);
    c->live_bytes = last ? fmax((double)last->live_bytes, 0) : 0;
    c->arenas = last && last->live_blocks > 0 &&
                tide_moment_is_arena(g->h, site, c->live_bytes / (double)last->live_blocks);
    double allocated = last ? (double)(last->total_bytes - (first ? first->total_bytes : 0)) : 0;
    double kept = last ? (double)(last->live_bytes - (first ? first->live_bytes : 0)) : 0;
    if (allocated > 0)
        c->freed_share = fmin(fmax(1 - kept / allocated, 0), 1);
}

/* Leaves out sites that rose before training and have been level since, that come and go, or that have only
 * one sample, which any of thousands of sites may have. */
static size_t keep_growing(struct tide_culprit *culprits, size_t count, size_t *ret_unjudged)
{
    size_t kept = 0;
    *ret_unjudged = 0;
    for (size_t i = 0; i < count; i++) {
        enum tide_verdict_kind kind = culprits[i].on.verdict.kind;
        *ret_unjudged += !culprits[i].judged;
        if (culprits[i].judged && kind != TIDE_FLAT && kind != TIDE_SPIKES && culprits[i].samples > 1.5)
            culprits[kept++] = culprits[i];
    }
    return kept;
}

/* Leaves out sites that explain next to nothing of a rise. */
static void keep_rising(struct tide_blame *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->culprits[i].share >= TIDE_BLAME_LEAST_SHARE)
            b->culprits[kept++] = b->culprits[i];
    b->count = kept;
}

static int take_culprits(struct tide_blaming *g, struct candidate *list, size_t count)
{
    struct tide_blame *b = g->b;
    bool growth = b->by == TIDE_BLAME_GROWTH, rise = b->by == TIDE_BLAME_RISE;
    size_t most = growth || rise ? TIDE_BLAME_JUDGED : g->options->most;
    most = most < CULPRITS_MOST ? most : CULPRITS_MOST;
    b->culprits = tide_arena_take(&b->arena, most + 1, sizeof *b->culprits);
    if (!b->culprits)
        return tide_err_set(g->err, "not enough memory for %zu culprits", most);
    double all[2] = {0};
    for (size_t i = 0; i < count; i++)
        all[tide_site_is_on_device(&g->h->sites[list[i].site])] += fmax(list[i].bytes, 0);
    b->all_bytes = all[false];
    b->all_device_bytes = all[true];
    for (size_t i = 0; i < count && b->count < most && list[i].bytes > 0; i++) {
        double whole = all[tide_site_is_on_device(&g->h->sites[list[i].site])];
        if (growth && list[i].bytes < LEAST_GROWTH)
            break;
        struct tide_culprit *c = &b->culprits[b->count];
        fill_culprit(g, &list[i], c);
        if (growth && judge_site(g, c))
            return -1;
        if (!growth)
            c->share = list[i].bytes / whole;
        b->count++;
    }
    for (size_t i = b->count; growth && i < count && list[i].bytes >= LEAST_GROWTH; i++)
        b->beyond++;
    if (growth) {
        b->count = keep_growing(b->culprits, b->count, &b->unjudged);
        tide_blaming_accuse(g);
        if (tide_blaming_find_healthy(g) || (!g->options->every_site && tide_blaming_join(g)))
            return -1;
        tide_blaming_hold(g);
    }
    if (rise) {
        if (tide_blaming_join(g))
            return -1;
        keep_rising(b);
    }
    if (b->count > g->options->most)
        b->count = g->options->most;
    return 0;
}

static int set_stretch(struct tide_blaming *g)
{
    if (g->b->by != TIDE_BLAME_BETWEEN) {
        tide_moment_training(g->h, g->a, &g->from_ns, &g->to_ns);
        return 0;
    }
    struct tide_moment from = {TIDE_MOMENT_STEP, g->options->from_x},
                       to = {TIDE_MOMENT_STEP, g->options->to_x};
    if (tide_moment_find(&from, g->h, g->a, &g->from_ns, g->err))
        return -1;
    return tide_moment_find(&to, g->h, g->a, &g->to_ns, g->err);
}

static int blame(struct tide_blaming *g)
{
    struct tide_blame *b = g->b;
    if (g->h->site_count == 0)
        return tide_sites_missing(g->h, g->err);
    b->x_is_steps = isfinite(g->a->steps);
    if (set_stretch(g) || (b->by == TIDE_BLAME_PHASE && find_phase(g)))
        return -1;
    struct candidate *list = tide_arena_take(&b->arena, g->h->site_count, sizeof *list);
    if (!list)
        return tide_err_set(g->err, "not enough memory for %zu call sites", g->h->site_count);
    int64_t at_ns[2] = {g->to_ns, g->to_ns}; /* on the host, on devices */
    for (int i = 0; b->by == TIDE_BLAME_PEAK && i < 2; i++)
        if (tide_moment_peak(g->h, i, &at_ns[i], g->err))
            return -1;
    if (b->by == TIDE_BLAME_RISE && find_rise(g, &at_ns[0]))
        return -1;
    if (b->by == TIDE_BLAME_RISE)
        at_ns[1] = at_ns[0];
    for (size_t i = 0; i < g->h->site_count; i++) {
        const struct tide_history_site *site = &g->h->sites[i];
        list[i].site = i;
        list[i].bytes = measure(g, site, at_ns[tide_site_is_on_device(site)], &list[i].blocks);
    }
    b->sites = g->h->site_count;
    qsort(list, g->h->site_count, sizeof *list, larger_first);
    return take_culprits(g, list, g->h->site_count);
}

int tide_blame_new(const struct tide_history *history, struct tide_assessment *assessment,
                   const struct tide_blame_options *options, struct tide_blame **ret_blame,
                   struct tide_err *err)
{
    struct tide_blame *b = calloc(1, sizeof *b);
    if (!b)
        return tide_err_set(err, "not enough memory");
    tide_arena_init(&b->arena, (size_t)256 << 20);
    b->by = options->by != TIDE_BLAME_VERDICT     ? options->by
            : is_of_peaks(&assessment->judged[0]) ? TIDE_BLAME_RISE
                                                  : TIDE_BLAME_GROWTH;
    struct tide_blaming g = {.h = history, .a = assessment, .options = options, .b = b, .err = err};
    if (blame(&g)) {
        tide_blame_free(b);
        return -1;
    }
    *ret_blame = b;
    return 0;
}

bool tide_blame_answers(const struct tide_blame *b, const struct tide_assessment *a)
{
    enum tide_verdict_kind kind = a->judged[0].verdict.kind;
    bool explained = false;
    for (size_t i = 0; i < b->count; i++)
        explained = explained || isfinite(b->culprits[i].share);
    return kind == TIDE_LEAK || b->by == TIDE_BLAME_RISE ||
           (explained && (kind == TIDE_UNDECIDED || kind == TIDE_JUMP));
}

void tide_blame_free(struct tide_blame *blame_)
{
    if (!blame_)
        return;
    tide_arena_release(&blame_->arena);
    free(blame_);
}
