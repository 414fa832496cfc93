/*
 * past_steps.c - what an ended run did after its last step. A bar of preprocessing, or the first of two
 * stages, may be all that a program counts: if memory rose mostly after it, the axis is time.
 */
#include "assess/axis.h"
#include "judge/floor.h"

#include <math.h>

enum {
    REST_LOOKS = 12,
    FIRST_PART = 12, /* a twelfth of the rest is its beginning */
    GIVEN_BACK_LOOKS = 2,
};

static const double REST_SHARE = 0.2;          /* of the time since the first step: less is the last step's */
static const double REST_SAID = 1.0 / 3;       /* of that time: so much is said */
static const double REST_RISE = 0.02;          /* of the process: less does not change the axis */
static const double REST_RISE_LEAST = 4 << 20; /* bytes, likewise */
static const double REST_RISE_BESIDE = 0.5;    /* of what memory rose by in the steps, likewise */

/* Returns the median of a process's private bytes over the looks between two times; NAN if it did not live.
 */
static double level_between(const struct tide_history *h, const struct tide_history_process *p,
                            int64_t from_ns, int64_t to_ns, struct tide_arena *arena)
{
    struct tide_arena_mark mark = tide_arena_mark(arena);
    double *found = tide_arena_take(arena, h->tick_count + 1, sizeof *found);
    size_t n = 0;
    to_ns = p->row.ended_ns != TIDE_UNKNOWN && p->row.ended_ns < to_ns ? p->row.ended_ns : to_ns;
    for (size_t i = tide_history_tick_from(h, from_ns); found && i < h->tick_count; i++) {
        const struct tide_history_point *point = tide_history_point_at(p, h->ticks[i].t_ns);
        if (h->ticks[i].t_ns > to_ns)
            break;
        if (point)
            found[n++] = (double)point->private_bytes;
    }
    double level = n ? tide_median(found, n) : NAN;
    tide_arena_rewind(arena, mark);
    return level;
}

/* Returns a process that rose after the last step by more than in the steps; 0: none did. Validation that is
 * freed again may raise it for a while, so the last third counts. */
static int64_t rises_after(const struct tide_history *h, int64_t first_ns, int64_t end_ns, int64_t last_ns,
                           struct tide_arena *arena)
{
    int64_t third_ns = (last_ns - end_ns) / 3, steps_ns = (end_ns - first_ns) / 3;
    for (size_t i = 0; i < h->process_count; i++) {
        const struct tide_history_process *p = &h->processes[i];
        bool ended = p->row.ended_ns != TIDE_UNKNOWN && p->row.ended_ns < last_ns - third_ns;
        if (ended || p->row.began_ns > end_ns) /* of 100,000 processes nearly all are such */
            continue;
        double first = level_between(h, p, first_ns, first_ns + steps_ns, arena),
               before =
                   level_between(h, p, end_ns - (steps_ns < third_ns ? steps_ns : third_ns), end_ns, arena),
               after = level_between(h, p, last_ns - third_ns, last_ns, arena);
        double least = fmax(REST_RISE * before, REST_RISE_LEAST);
        if (after - before > fmax(least, REST_RISE_BESIDE * fmax(before - first, 0)))
            return p->row.id;
    }
    return 0;
}

/* True if a process gave back what it had taken since `end_ns` before it ended: more than a look before, in
 * which the interpreter may free everything. */
static bool gives_back(const struct tide_history *h, int64_t process, int64_t end_ns,
                       struct tide_arena *arena)
{
    const struct tide_history_process *p = tide_history_process(h, process);
    int64_t last_ns = h->ticks[h->tick_count - 1].t_ns;
    double before = level_between(h, p, end_ns, end_ns + (last_ns - end_ns) / FIRST_PART, arena),
           after = level_between(h, p, last_ns - (last_ns - end_ns) / 3, last_ns, arena);
    size_t low = 0;
    for (size_t i = tide_history_tick_from(h, end_ns); i < h->tick_count; i++) {
        const struct tide_history_point *point = tide_history_point_at(p, h->ticks[i].t_ns);
        bool lives = point && (p->row.ended_ns == TIDE_UNKNOWN || h->ticks[i].t_ns < p->row.ended_ns);
        if (lives)
            low = (double)point->private_bytes < (before + after) / 2 ? low + 1 : 0;
    }
    return low >= GIVEN_BACK_LOOKS;
}

/* Returns the last step mark with a name, of any process: ranks do not end at the same moment. */
static int64_t last_mark(const struct tide_history *h, int64_t stage, int64_t at_least_ns)
{
    for (size_t i = h->mark_count; i-- > 0;)
        if (h->marks[i].kind == TIDE_MARK_STEP && h->marks[i].name == stage)
            return h->marks[i].t_ns > at_least_ns ? h->marks[i].t_ns : at_least_ns;
    return at_least_ns;
}

void tide_axis_look_past(const struct tide_history *h, int64_t stage, int64_t step_ns,
                         struct tide_arena *arena, struct tide_axis *axis)
{
    int64_t over_ns = last_mark(h, stage, axis->t_ns[axis->count - 1]) + step_ns;
    int64_t first_ns = axis->t_ns[0], last_ns = h->tick_count ? h->ticks[h->tick_count - 1].t_ns : 0;
    size_t looks = h->tick_count - tide_history_tick_from(h, over_ns);
    double rest = (double)(last_ns - over_ns);
    if (h->ended_ns == TIDE_UNKNOWN || looks < REST_LOOKS || rest < REST_SHARE * (double)(last_ns - first_ns))
        return;
    double rest_s = (double)(last_ns - axis->t_ns[axis->count - 1]) / 1e9;
    int64_t process = rises_after(h, first_ns, over_ns, last_ns, arena);
    if (process)
        *axis = (struct tide_axis){.told = axis->told,
                                   .outgrown = true,
                                   .given_back = gives_back(h, process, over_ns, arena),
                                   .begin_ns = first_ns,
                                   .end_ns = INT64_MAX,
                                   .seconds_per_step = 1};
    if (process || rest > REST_SAID * (double)(last_ns - first_ns))
        axis->rest_s = rest_s;
}
