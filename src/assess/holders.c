/*
 * holders.c - who holds what grows: gauges left by a census of the program's tensors (python/tidemark/
 * _asked.py), joined with the call sites that grow.
 *
 * A census names a holder only if its tensors became more from one census to the next. Here it must also hold
 * a good part of what the sites of its process grew by, in the same memory; the last census may have been
 * made when a third of the run was over.
 */
#include "assess/assessment_private.h"
#include "assess/blame_private.h"
#include "assess/stacks.h"
#include "base/map.h"

#include <math.h>
#include <string.h>

static const double LEAST_SHARE = 0.1;

/* Returns what follows the prefix in the name of such a gauge; NULL: it is none. */
static const char *holder_in(const struct tide_history *h, const struct tide_history_mark *m, bool on_device)
{
    const char *prefix = on_device ? TIDE_GAUGE_HELD_ON_GPU : TIDE_GAUGE_HELD;
    if (m->kind != TIDE_MARK_GAUGE || m->name < 0 || (size_t)m->name >= h->name_count)
        return NULL;
    const char *name = h->names[m->name];
    return strncmp(name, prefix, strlen(prefix)) ? NULL : name + strlen(prefix);
}

const char *tide_holder_of_more(const struct tide_history *h, int64_t process)
{
    const struct tide_history_mark *most = NULL;
    for (size_t i = 0; i < h->mark_count; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        if (m->process == process && holder_in(h, m, false) && (!most || m->number > most->number))
            most = m;
    }
    for (size_t i = 0; most && &h->marks[i] < most; i++)
        if (h->marks[i].process == process && h->marks[i].kind == most->kind &&
            h->marks[i].name == most->name)
            return holder_in(h, most, false);
    return NULL;
}

static double growth_around(const struct tide_blame *b, const struct tide_culprit *c, bool on_device)
{
    double sum = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->culprits[i].process == c->process && b->culprits[i].bytes_per_x > 0 &&
            tide_site_is_on_device(b->culprits[i].site) == on_device)
            sum += fmax(b->culprits[i].bytes, 0);
    return sum;
}

/* Inserts a holder if it is among the largest. */
static void take_holder(struct tide_culprit *c, double held[TIDE_HOLDERS], const char *holder, double bytes)
{
    size_t at = c->holder_count;
    while (at > 0 && held[at - 1] < bytes)
        at--;
    if (at == TIDE_HOLDERS)
        return;
    c->holder_count += c->holder_count < TIDE_HOLDERS;
    for (size_t i = c->holder_count - 1; i > at; i--) {
        c->holders[i] = c->holders[i - 1];
        held[i] = held[i - 1];
    }
    c->holders[at] = holder;
    held[at] = bytes;
}

static void find_holders(const struct tide_blaming *g, struct tide_culprit *c)
{
    const struct tide_history *h = g->h;
    bool on_device = tide_site_is_on_device(c->site);
    double least = LEAST_SHARE * growth_around(g->b, c, on_device), held[TIDE_HOLDERS];
    struct tide_map seen; /* names that were seen: the last mark of each counts */
    tide_map_init(&seen, h->name_count + 1);
    for (size_t i = h->mark_count; i-- > 0;) {
        const struct tide_history_mark *m = &h->marks[i];
        const char *holder = m->process == c->process ? holder_in(h, m, on_device) : NULL;
        uint64_t ignored;
        if (!holder || tide_map_get(&seen, (uint64_t)m->name, &ignored) ||
            tide_map_put(&seen, (uint64_t)m->name, 0))
            continue;
        if ((double)m->number >= least)
            take_holder(c, held, holder, (double)m->number);
    }
    tide_map_release(&seen);
}

/* Gives holders to the first culprit of each process and kind of memory. */
void tide_blaming_hold(struct tide_blaming *g)
{
    struct tide_blame *b = g->b;
    for (size_t i = 0; i < b->count; i++) {
        struct tide_culprit *c = &b->culprits[i];
        bool first = c->bytes_per_x > 0;
        for (size_t k = 0; k < i && first; k++)
            first = b->culprits[k].process != c->process ||
                    tide_site_is_on_device(b->culprits[k].site) != tide_site_is_on_device(c->site);
        if (first)
            find_holders(g, c);
    }
}
