/*
 * asked.c - has a process that grows asked for more memory?
 *
 * Memory is asked for first and touched later, and what leaks must be asked for again and again. If a process
 * rises but has asked for no more, it touches pages that it had: a buffer that is filled, memory that others
 * share with it, a heap that a runtime took in one piece and fills with garbage until it has to collect. That
 * ends when all of it is touched. A leak inside of such a piece looks the same, so the verdict is undecided;
 * if the rise is small against the process, it is flat.
 *
 * A large mapping without a reservation (MAP_NORESERVE) is not such a piece: an allocator took addresses far
 * ahead, to use as much of them as it will need. What is touched there counts as asked for.
 */
#include "assess/assessment_private.h"
#include "judge/thresholds.h"

#include <math.h>
#include <string.h>

/* Shares of the stretch. Memory taken in one piece is taken before STARTED, and what a process frees as it
 * ends comes after ENDING. BESIDE is how much is looked at next to each. */
static const double STARTED = 0.25, ENDING = 0.95, BESIDE = 0.1;

/* Bytes of a process: what is there, and what was asked for that it could be part of. Shared memory may be
 * part of any mapping. */
struct had {
    double own, asked;
    double shared, mapped;
};

/* What was asked for excludes stacks and pages that may no longer be written. So it can be somewhat less than
 * what is there; if it is much less, it is not known. */
static bool is_known(const struct tide_history_point *p)
{
    return p->asked_bytes >= (p->private_bytes - p->shared_bytes) / 2 && p->mapped_bytes >= p->shmem_bytes;
}

/* Finds the lowest of each between two times. False: not known. */
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

/* What more is there, but at most what more was asked for. */
static double asked_of(double more, double asked)
{
    return fmin(fmax(more, 0), fmax(asked, 0));
}

/* Returns the size of files in memory at a time, by the tracker: a runtime that reserves addresses for its
 * heap takes the memory for it there before it touches it. 0: there are none. */
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

/* Returns how much of its memory, shared or its own, the process has not touched at a time. */
static double room_at(const struct tide_history *h, const struct tide_history_process *p, int64_t t_ns,
                      bool shared)
{
    const struct tide_history_point *now = tide_history_point_at(p, t_ns);
    double files = shared ? files_at(h, t_ns) : 0;
    if (files > 0)
        return fmax(files - (double)now->shared_bytes, 0);
    return fmax((double)(now->asked_bytes - (now->private_bytes - now->shared_bytes)), 0);
}

/* Returns which part of a process's own growth between two times is in mappings without a reservation: by the
 * first and the last reading of these, if they are half of that time apart. 0: not known. */
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
    /* Too little was touched: pages that are no longer shared were there before, and what was freed at the
     * end tells nothing. Or enough was asked for. */
    if (touched < least * v->growth_bytes || asked >= TIDE_ASKED_SHARE * touched)
        return;
    j->starting = false;
    if (v->growth_bytes <= TIDE_LEVEL_RISE * v->floor_last) {
        tide_assessing_flat(v, v->slope_high);
        return;
    }
    j->room_bytes = room_at(s->h, p, ended_ns, shared > own);
    tide_assessing_doubt(v, j->room_bytes / v->slope);
}
