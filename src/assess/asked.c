/*
 * asked.c - whether a process that grows has asked for more.
 *
 * Memory is asked for first and touched later, and what leaks must be asked for again and again. A process
 * that rises while what it has asked for stays as it was touches pages that it had: a buffer that is filled,
 * memory that others share with it, the heap that a runtime took in one piece and fills with garbage until it
 * has to collect. That ends when all of it is touched. What leaks inside of such a piece looks the same, so
 * this is not decided; if it is little of what the process has, it is flat.
 *
 * A large mapping that no memory was reserved for (MAP_NORESERVE) is not such a piece: it is addresses that
 * an allocator took far ahead, of which it means to use what it will need. What is touched there was asked
 * for.
 */
#include "assess/assessment_private.h"
#include "judge/thresholds.h"

#include <math.h>
#include <string.h>

/* Of the stretch: what is taken in one piece is taken before the first of these, and what a process gives
 * back as it ends after the second; beside each, so much is looked at. */
static const double STARTED = 0.25, ENDING = 0.95, BESIDE = 0.1;

/* Bytes of a process: what is there, and what was asked for that it could be part of. Shared memory may be
 * part of any mapping. */
struct had {
    double own, asked;
    double shared, mapped;
};

/* Stacks, and pages that may no longer be written, are not counted in what was asked for: it can be somewhat
 * less than is there, and is not known when it is much less. */
static bool is_known(const struct tide_history_point *p)
{
    return p->asked_bytes >= (p->private_bytes - p->shared_bytes) / 2 && p->mapped_bytes >= p->shmem_bytes;
}

/* The lowest of each between two times. False: not known. */
static bool find_lowest(const struct tide_history_process *p, int64_t from_ns, int64_t to_ns,
                        struct had *ret_had)
{
    struct had low = {INFINITY, INFINITY, INFINITY, INFINITY};
    size_t i = TIDE_UNTIL(p->points, p->point_count, from_ns);
    for (i = i > 0 ? i - 1 : 0; i < p->point_count && p->points[i].t_ns <= to_ns; i++) {
        const struct tide_history_point *now = &p->points[i];
        if (!is_known(now))
            return false;
        low.own = fmin(low.own, (double)(now->private_bytes - now->shared_bytes));
        low.asked = fmin(low.asked, (double)now->asked_bytes);
        low.shared = fmin(low.shared, (double)now->shared_bytes);
        low.mapped = fmin(low.mapped, (double)now->mapped_bytes);
    }
    *ret_had = low;
    return isfinite(low.own);
}

/* What more is there, as far as so much more was asked for. */
static double asked_of(double more, double asked)
{
    return fmin(fmax(more, 0), fmax(asked, 0));
}

/* What files in memory have at a time, by the tracker: a runtime that reserves addresses for its heap takes
 * the memory for it there, before it touches that. 0: there are none. */
static double files_at(const struct tide_history *h, int64_t t_ns)
{
    double bytes = 0;
    for (size_t i = 0; i < h->mark_count && h->marks[i].t_ns <= t_ns; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        if (m->kind == TIDE_MARK_GAUGE && m->source == TIDE_SOURCE_TRACKER && m->name >= 0 &&
            !strcmp(h->names[m->name], TIDE_GAUGE_SHARED))
            bytes = (double)m->number;
    }
    return bytes;
}

/* What of its memory, shared or its own, the process has not touched at a time. */
static double room_at(const struct tide_history *h, const struct tide_history_process *p, int64_t t_ns,
                      bool shared)
{
    const struct tide_history_point *now = tide_history_point_at(p, t_ns);
    double files = shared ? files_at(h, t_ns) : 0;
    if (files > 0)
        return fmax(files - (double)now->shared_bytes, 0);
    return fmax((double)(now->asked_bytes - (now->private_bytes - now->shared_bytes)), 0);
}

/* Which part of what a process has more of its own between two times is in mappings without a reservation: by
 * the first and the last reading of these, if they are half of that time apart. 0: not known. */
static double unreserved_part(const struct tide_history_process *p, int64_t from_ns, int64_t to_ns)
{
    const struct tide_history_smaps *first = NULL, *last = NULL;
    for (size_t i = 0; i < p->smaps_count && p->smaps[i].t_ns <= to_ns; i++) {
        if (p->smaps[i].t_ns < from_ns || p->smaps[i].unreserved_bytes < 0)
            continue;
        first = first ? first : &p->smaps[i];
        last = &p->smaps[i];
    }
    if (!first || last->t_ns - first->t_ns < (to_ns - from_ns) / 2)
        return 0;
    const struct tide_history_point *then = tide_history_point_at(p, first->t_ns),
                                    *now = tide_history_point_at(p, last->t_ns);
    double more = (double)(last->unreserved_bytes - first->unreserved_bytes);
    double own =
        then ? (double)(now->private_bytes - now->shared_bytes - then->private_bytes + then->shared_bytes)
             : 0;
    return own > 0 && more > 0 ? fmin(more / own, 1) : 0;
}

static void say_flat(struct tide_verdict *v)
{
    v->kind = TIDE_FLAT;
    v->shape = TIDE_SHAPE_LEVEL;
    v->confidence = 0.5;
    v->limit_x = v->limit_x_low = v->limit_x_high = NAN;
    v->steps_needed = v->needed_for = NAN;
    v->detectable = v->slope_high;
}

void tide_assessing_asked(const struct tide_assessing *s, const struct tide_history_process *p,
                          struct tide_judged *j)
{
    struct tide_verdict *v = &j->verdict;
    int64_t began_ns = tide_assessing_time(s, v->start_x), ended_ns = tide_assessing_time(s, v->x_last);
    double length = (double)(ended_ns - began_ns);
    int64_t from_ns = began_ns + (int64_t)(STARTED * length), to_ns = began_ns + (int64_t)(ENDING * length),
            beside = (int64_t)(BESIDE * length);
    struct had first, last;
    if (!(tide_verdict_grows(v) || j->starting) || !find_lowest(p, from_ns, from_ns + beside, &first) ||
        !find_lowest(p, to_ns - beside, to_ns, &last))
        return;
    double own = last.own - first.own, shared = last.shared - first.shared;
    double files = shared > 0 ? files_at(s->h, to_ns) - files_at(s->h, from_ns) : 0;
    double unreserved = fmax(own, 0) * unreserved_part(p, began_ns, ended_ns);
    double asked = fmax(asked_of(own, last.asked - first.asked), unreserved) +
                   asked_of(shared, fmax(last.mapped - first.mapped, files));
    double touched = fmax(own, 0) + fmax(shared, 0), least = TIDE_ASKED_SHARE * (ENDING - STARTED - BESIDE);
    /* Pages that it no longer has in common with others were there before, and what was given back as it
     * ended tells nothing. */
    if (touched < least * v->growth_bytes || asked >= TIDE_ASKED_SHARE * touched)
        return;
    j->starting = false;
    if (v->growth_bytes <= TIDE_LEVEL_RISE * v->floor_last) {
        say_flat(v);
        return;
    }
    j->room_bytes = room_at(s->h, p, ended_ns, shared > own);
    tide_assessing_doubt(v, j->room_bytes / v->slope);
}
