/*
 * rise.c - how much more sites hold at the peak than before, if memory rises for a while and is freed again.
 */
#include "assess/blame_private.h"
#include "assess/moment.h"
#include "assess/stacks.h"

#include <math.h>
#include <stdlib.h>

bool tide_blaming_is_of_peaks(const struct tide_judged *worst)
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
        if (tide_assess_x_of(g->a, g->h->ticks[i].t_ns) <= worst->retention.before_x)
            t_ns = g->h->ticks[i - 1].t_ns;
    return t_ns > g->from_ns ? t_ns : g->from_ns;
}

/* The peak of a rise: the highest value, if peaks rise from epoch to epoch; else the moment nearest to what
 * the verdict says is held now, because the highest value may be another one, as while a file is read. */
int tide_blaming_find_rise(struct tide_blaming *g, int64_t *ret_t_ns)
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

double tide_blaming_rise(const struct tide_blaming *g, const struct tide_history_site *site, int64_t at_ns,
                         double *ret_blocks)
{
    if (!may_rise(g, site))
        return 0;
    return tide_moment_live(g->h, site, at_ns, ret_blocks) - held_before_rise(g, site, at_ns);
}
