/*
 * phases.c - the phase that ran when memory was read. On an axis of steps all phases of a step lie at the
 * same place, so which of them held a spike only time can tell.
 */
#include "assess/phases.h"
#include "assess/assessment_private.h"

#include <math.h>

enum { OPEN_MOST = 64 }; /* phases inside one another; what is deeper counts for the one around it */

/* Names of the phases that run, the innermost last. */
struct open {
    int name[OPEN_MOST];
    size_t count;
};

static void follow(struct open *o, const struct tide_history_mark *m)
{
    if (m->kind == TIDE_MARK_PHASE_BEGIN && o->count < OPEN_MOST)
        o->name[o->count++] = m->name;
    if (m->kind != TIDE_MARK_PHASE_END)
        return;
    for (size_t i = o->count; i-- > 0;) {
        if (o->name[i] != m->name)
            continue;
        for (o->count--; i < o->count; i++)
            o->name[i] = o->name[i + 1];
        return;
    }
}

int tide_phase_at(const struct tide_history *h, int64_t process, int64_t t_ns)
{
    bool told = false;
    for (size_t i = 0; i < h->mark_count && !told; i++)
        told = h->marks[i].kind == TIDE_MARK_PHASE_BEGIN && h->marks[i].process == process;
    struct open o = {.count = 0};
    for (size_t i = 0; i < h->mark_count && h->marks[i].t_ns <= t_ns; i++)
        if (!told || h->marks[i].process == process)
            follow(&o, &h->marks[i]);
    return o.count ? o.name[o.count - 1] : -1;
}

int tide_assessing_phases(struct tide_assessing *s)
{
    const struct tide_history *h = s->h;
    s->bucket_phase = tide_arena_take(s->arena, s->buckets + 1, sizeof *s->bucket_phase);
    if (!s->bucket_phase)
        return tide_err_set(s->err, "not enough memory to judge the recording");
    struct open o = {.count = 0};
    int64_t most = 0;
    for (size_t i = 0, b = 0, at = 0; i < h->tick_count; i++) {
        for (; at < h->mark_count && h->marks[at].t_ns <= h->ticks[i].t_ns; at++)
            follow(&o, &h->marks[at]);
        bool first = i == 0;
        for (; b + 1 < s->buckets && h->ticks[i].t_ns >= s->bucket_ns[b + 1]; b++)
            first = true;
        if (!first && h->ticks[i].counted_bytes <= most)
            continue;
        most = h->ticks[i].counted_bytes;
        s->bucket_phase[b] = o.count ? o.name[o.count - 1] : -1;
    }
    return 0;
}
