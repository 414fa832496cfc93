#include "assess/death.h"

#include "assess/process_name.h"
#include "base/clock.h"
#include "base/text.h"

#include <math.h>
#include <signal.h>
#include <string.h>

enum {
    SIGNAL_STATUS = 128, /* a shell's status above it means a signal */
    SIGNAL_MOST = 64,
    NEAR_MS = 2000, /* between a kill and the look that sees it, because a process may take long to die */
    LATE_MS = 500,  /* between the end of a process and the moment when its last step was read */
};

static const double among_the_largest = 0.5; /* of the largest: the kernel kills large processes */
static const double at_the_limit = 0.8;      /* of the limit, at some look: the last pages come fast */
static const double reached = 0.99;          /* of the limit, by the kernel's own peak */

/* Returns NAN if it has no samples. */
static double last_bytes(const struct tide_history_process *p)
{
    return p->point_count ? (double)p->points[p->point_count - 1].private_bytes : NAN;
}

/* Returns the largest process that ended between the two times, the root only if root_too; NULL: none did.
 * One without samples counts as the smallest. */
static const struct tide_history_process *largest_ended(const struct tide_history *h, int64_t from_ns,
                                                        int64_t to_ns, bool root_too)
{
    const struct tide_history_process *largest = NULL;
    for (size_t i = 0; i < h->process_count; i++) {
        const struct tide_history_process *p = &h->processes[i];
        int64_t ended_ns = p->row.ended_ns;
        if (ended_ns != TIDE_UNKNOWN && ended_ns >= from_ns && ended_ns <= to_ns &&
            (!largest || isnan(last_bytes(largest)) || last_bytes(p) > last_bytes(largest)) &&
            (root_too || !tide_history_is_same(p, &h->processes[0])) && tide_history_last_program(h, p) == p)
            largest = p;
    }
    return largest;
}

static bool is_among_the_largest(const struct tide_history *h, const struct tide_history_process *p,
                                 int64_t t_ns)
{
    double most = 0;
    for (size_t i = 0; i < h->process_count; i++)
        if (tide_history_lives(&h->processes[i], t_ns))
            most = fmax(most, last_bytes(&h->processes[i]));
    return last_bytes(p) >= among_the_largest * most;
}

static int64_t two_looks_or(const struct tide_history *h, int64_t least_ms)
{
    int64_t least = least_ms * (int64_t)TIDE_NS_PER_MS;
    return h->interval_ns != TIDE_UNKNOWN && 2 * h->interval_ns > least ? 2 * h->interval_ns : least;
}

static int64_t near_ns(const struct tide_history *h)
{
    return two_looks_or(h, NEAR_MS);
}

/* Returns the size before the program began to free everything in answer to the signal: an interpreter that
 * ends takes itself apart, and the last look may fall into that. */
static double bytes_before_teardown(const struct tide_history *h, const struct tide_history_process *p,
                                    int64_t t_ns)
{
    const double collapse = 0.9; /* of the look before, or less */
    size_t i = p->point_count ? p->point_count - 1 : 0;
    while (i > 0 && p->points[i].t_ns >= t_ns - near_ns(h) &&
           (double)p->points[i].private_bytes < collapse * (double)p->points[i - 1].private_bytes)
        i--;
    return p->point_count ? (double)p->points[i].private_bytes : NAN;
}

/* Recordings before version 9 have only the words, not the count. */
static bool tells_of_kills(const struct tide_note *note)
{
    if (note->kills != TIDE_UNKNOWN)
        return note->kills > 0;
    return !strncmp(note->text, "the kernel killed ", 18) && strstr(note->text, "(oom_kill)");
}

/* Returns the first process of this tree that the kernel killed for lack of memory; NULL: there is none. */
static const struct tide_history_process *killed_for_memory(const struct tide_history *h)
{
    for (size_t i = 0; i < h->note_count; i++) {
        const struct tide_note *note = &h->notes[i];
        if (!tells_of_kills(note))
            continue;
        /* A look that sees a victim dead sees the kill counted, too: who was dead before was not killed. */
        size_t before = TIDE_UNTIL(h->ticks, h->tick_count, note->t_ns - 1);
        int64_t from = before ? h->ticks[before - 1].t_ns : 0;
        const struct tide_history_process *p = largest_ended(h, from, note->t_ns + near_ns(h), true);
        if (p && is_among_the_largest(h, p, from))
            return p;
    }
    return NULL;
}

/* Returns the process that a signal killed, and the signal; NULL: none. */
static const struct tide_history_process *killed_by_signal(const struct tide_history *h, int *ret_signal)
{
    if (h->exit_status <= SIGNAL_STATUS || h->exit_status > SIGNAL_STATUS + SIGNAL_MOST || !h->process_count)
        return NULL;
    const struct tide_history_process *root = tide_history_last_program(h, &h->processes[0]);
    *ret_signal = (int)(h->exit_status - SIGNAL_STATUS);
    if (h->exit_signal > 0)
        return root;
    /* The command ended by itself and passes on the status of its child. */
    int64_t ended = root->row.ended_ns == TIDE_UNKNOWN ? h->ended_ns : root->row.ended_ns;
    return largest_ended(h, ended - near_ns(h), ended, h->exit_signal == TIDE_UNKNOWN);
}

/* True if a limit was replaced, or lifted, well before a time. The last look does not count, because a
 * process that dies leaves its group. */
static bool is_replaced(const struct tide_history *h, size_t limit, int64_t t_ns)
{
    for (size_t i = limit + 1; i < h->limit_count && h->limits[i].t_ns < t_ns; i++)
        if (strcmp(h->limits[i].name, h->limits[limit].name) == 0)
            return true;
    return false;
}

/* Finds the last limit of a cgroup that memory came near to, if there is one. A spike since the last look is
 * only in the peak that the kernel keeps. */
static void find_limit(const struct tide_history *h, struct tide_death *d)
{
    int64_t from = d->t_ns - near_ns(h);
    double most = 0, counted = 0, peak = 0;
    for (size_t i = 0; i < h->tick_count && h->ticks[i].t_ns <= d->t_ns + near_ns(h); i++) {
        const struct tide_tick *tick = &h->ticks[i];
        peak = fmax(peak, (double)tick->cgroup_peak_bytes);
        if (tick->t_ns < from || tick->t_ns > d->t_ns)
            continue;
        counted = fmax(counted, (double)tick->counted_bytes);
        most = fmax(most, fmax(counted, (double)tick->cgroup_bytes));
    }
    for (size_t i = h->limit_count; i-- > 0;) {
        const struct tide_limit *l = &h->limits[i];
        if (l->t_ns > d->t_ns || strncmp(l->name, "cgroup ", 7) != 0 || l->bytes <= 0 ||
            (most < at_the_limit * (double)l->bytes && peak < reached * (double)l->bytes) ||
            is_replaced(h, i, from))
            continue;
        d->limit_bytes = (double)l->bytes;
        d->grew_since = counted < at_the_limit * (double)l->bytes;
        tide_text_shown(l->name, d->limit_name, sizeof d->limit_name);
        return;
    }
}

/* True if no other process lived on, except its ancestors, and those only to see its end. */
static bool was_the_last(const struct tide_history *h, const struct tide_history_process *p, int64_t t_ns)
{
    int64_t parent = p->row.parent;
    for (size_t i = h->process_count; i-- > 0;) { /* parents come before their children */
        const struct tide_history_process *other = &h->processes[i];
        const struct tide_history_process *ancestor = tide_history_process(h, parent);
        bool is_parent = ancestor && tide_history_is_same(other, ancestor);
        int64_t by_ns = is_parent ? t_ns + near_ns(h) : t_ns;
        if (other != p && (other->row.ended_ns == TIDE_UNKNOWN || other->row.ended_ns > by_ns))
            return false;
        if (other == ancestor)
            parent = other->row.parent;
    }
    return true;
}

/* Returns the last step that can be the process's. What a program prints is read a moment later, its last
 * steps after its end; but if steps go on for longer, an ancestor printed them. */
static double last_step(const struct tide_history *h, const struct tide_axis *axis,
                        const struct tide_history_process *p, int64_t t_ns)
{
    size_t until = 0;
    while (axis->is_steps && until < axis->count && axis->t_ns[until] <= t_ns)
        until++;
    bool are_its_own = axis->is_steps && axis->count && was_the_last(h, p, t_ns) &&
                       axis->t_ns[axis->count - 1] <= t_ns + two_looks_or(h, LATE_MS);
    size_t count = are_its_own ? axis->count : until;
    return count ? axis->step[count - 1] : NAN;
}

/* Finds the step, and the phase that the process was in; if it named no phases, that of whichever process
 * did. */
static void find_place(const struct tide_history *h, const struct tide_axis *axis,
                       const struct tide_phases *phases, const struct tide_history_process *p,
                       struct tide_death *d)
{
    d->step = last_step(h, axis, p, d->t_ns);
    bool told = false;
    for (size_t i = 0; i < phases->count && !told; i++)
        told = phases->all[i].process == p->row.id;
    const struct tide_phase *phase = tide_phases_at(phases, told ? p->row.id : 0, d->t_ns);
    tide_history_name(h, phase ? phase->name : -1, d->phase, sizeof d->phase);
}

void tide_death_find(const struct tide_history *h, const struct tide_axis *axis,
                     const struct tide_phases *phases, struct tide_death *ret_death)
{
    struct tide_death d = {
        .cause = TIDE_DEATH_OOM, .signal = SIGKILL, .bytes = NAN, .step = NAN, .limit_bytes = NAN};
    const struct tide_history_process *p = killed_for_memory(h);
    if (!p) {
        d.cause = TIDE_DEATH_SIGNAL;
        p = killed_by_signal(h, &d.signal);
    }
    if (!p) {
        *ret_death = (struct tide_death){.cause = TIDE_DEATH_NONE, .bytes = NAN, .step = NAN};
        return;
    }
    d.pid = p->row.pid;
    d.t_ns = p->row.ended_ns == TIDE_UNKNOWN ? h->ended_ns : p->row.ended_ns;
    d.bytes = d.signal == SIGKILL ? last_bytes(p) : bytes_before_teardown(h, p, d.t_ns);
    tide_process_name(h, p, d.name, sizeof d.name);
    find_place(h, axis, phases, p, &d);
    if (d.cause == TIDE_DEATH_OOM)
        find_limit(h, &d);
    *ret_death = d;
}
