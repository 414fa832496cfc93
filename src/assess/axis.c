#include "assess/axis.h"
#include "judge/floor.h"

#include <math.h>

enum {
    FEWEST_STEPS = 12,
    FEWEST_TICKS = 48,
    FEWEST_BURSTS = 8,
    BURST_STEPS = 3,
    BURST_LOOKS = 3,
    FEWEST_EPOCHS = 3,
    EPOCHS_SHARE = 4, /* at least a quarter of the run */
    REST_LOOKS = 12,
    FIRST_PART = 12, /* a twelfth of the rest is its beginning */
    GIVEN_BACK_LOOKS = 2,
};

static const double LAST_STEP =
    1.25; /* times the mean step: how long the last one may take before the program's end begins */

static const double REST_SHARE = 0.2;          /* of the time since the first step: less is the last step's */
static const double REST_SAID = 1.0 / 3;       /* of that time: so much is said */
static const double REST_RISE = 0.02;          /* of the process: less does not change the axis */
static const double REST_RISE_LEAST = 4 << 20; /* bytes, likewise */
static const double REST_RISE_BESIDE = 0.5;    /* of what memory rose by in the steps, likewise */

/* Returns the process whose step marks are used; 0 for those of the output (or of no known process). */
static int64_t stepper_of(const struct tide_history *h, struct tide_arena *arena)
{
    size_t *counts = tide_arena_take(arena, h->process_count + 1, sizeof *counts);
    if (!counts)
        return -1;
    int64_t best = 0;
    bool program = false;
    for (size_t i = 0; i < h->mark_count; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        if (m->kind != TIDE_MARK_STEP || m->process < 0 || (size_t)m->process > h->process_count)
            continue;
        bool said = m->source == TIDE_SOURCE_PROGRAM;
        counts[m->process]++;
        if ((said && !program) || (said == program && counts[m->process] > counts[best]))
            best = m->process;
        program |= said;
    }
    return best;
}

/* Returns the name of the marks that are used, of those of a process: output that counts one thing after
 * another names each stage, and the longest is used. *ret_count: how many marks have that name. -2: no
 * memory. */
static int64_t stage_of(const struct tide_history *h, int64_t process, size_t *ret_count,
                        struct tide_arena *arena)
{
    struct stage {
        int64_t first_ns, last_ns;
        size_t count;
    } *stages = tide_arena_take(arena, h->name_count + 1, sizeof *stages), *best = stages;
    if (!stages)
        return -2;
    for (size_t i = 0; i < h->mark_count; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        if (m->kind != TIDE_MARK_STEP || m->process != process || m->name + 1 > (int64_t)h->name_count)
            continue;
        struct stage *s = &stages[m->name + 1];
        s->first_ns = s->count++ ? s->first_ns : m->t_ns;
        s->last_ns = m->t_ns;
        if (s->last_ns - s->first_ns > best->last_ns - best->first_ns || best->count == 0)
            best = s;
    }
    *ret_count = best->count;
    return best - stages - 1;
}

/* Returns when a process began to free its memory for good: the first of the falls in a row that end its
 * series, as far as they are later than its last step. INT64_MAX: it did not. */
static int64_t fall_of(const struct tide_history *h, int64_t process, int64_t last_step_ns)
{
    const struct tide_history_process *p = tide_history_process(h, process);
    if (!p)
        return INT64_MAX;
    size_t i = p->point_count;
    while (i > 1 && p->points[i - 1].t_ns > last_step_ns &&
           p->points[i - 1].private_bytes < p->points[i - 2].private_bytes)
        i--;
    return i < p->point_count ? p->points[i].t_ns : INT64_MAX;
}

/* Returns when training was over, if the program ended well. If it was killed in its last step, that step is
 * what matters most. */
static int64_t end_of(const struct tide_history *h, int64_t process, int64_t last_step_ns, double step_ns)
{
    if (h->exit_status != 0)
        return INT64_MAX;
    int64_t over_ns = last_step_ns + (int64_t)(LAST_STEP * step_ns),
            fall_ns = fall_of(h, process, last_step_ns);
    return fall_ns <= over_ns ? fall_ns - 1 : over_ns;
}

/* True if steps came in few looks, several in each and none in those between, so that it is not known where
 * memory was when they were made. */
static bool is_bursts(const struct tide_history *h, const int64_t *t_ns, size_t count)
{
    size_t tick = 0, bursts = 0, first = SIZE_MAX, before = SIZE_MAX;
    for (size_t i = 0; i < count && bursts < FEWEST_BURSTS; i++) {
        while (tick < h->tick_count && h->ticks[tick].t_ns <= t_ns[i])
            tick++;
        first = first == SIZE_MAX ? tick : first;
        bursts += tick != before;
        before = tick;
    }
    bool close = tick - first < BURST_LOOKS * bursts; /* steps in most looks: a short run, not a buffer */
    return bursts < 2 || (bursts < FEWEST_BURSTS && count >= BURST_STEPS * bursts && !close);
}

/* Returns when the first epoch began, if there are several that span a good part of the run; else 0. */
static int64_t first_epoch_of(const struct tide_history *h)
{
    int64_t first_ns = 0, last_ns = 0, epochs = 0;
    for (size_t i = 0; i < h->mark_count; i++) {
        if (h->marks[i].kind != TIDE_MARK_EPOCH)
            continue;
        first_ns = epochs++ ? first_ns : h->marks[i].t_ns;
        last_ns = h->marks[i].t_ns;
    }
    int64_t end_ns = h->tick_count ? h->ticks[h->tick_count - 1].t_ns : 0;
    return epochs >= FEWEST_EPOCHS && last_ns - first_ns >= end_ns / EPOCHS_SHARE ? first_ns : 0;
}

/*
 * What an ended run did after its last step. A bar of preprocessing, or the first of two stages, may be all
 * that a program counts: if memory rose mostly after it, the axis is time.
 */

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

/* Looks at what came after the last step with that name of any process, and a step's time beyond it. Fills
 * rest_s, outgrown and given_back, and makes the axis seconds if it was outgrown. */
static void look_past(const struct tide_history *h, int64_t stage, int64_t step_ns, struct tide_arena *arena,
                      struct tide_axis *axis)
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

int tide_axis_make(const struct tide_history *h, struct tide_arena *arena, struct tide_axis *ret,
                   struct tide_err *err)
{
    *ret = (struct tide_axis){.seconds_per_step = 1, .begin_ns = first_epoch_of(h), .end_ns = INT64_MAX};
    size_t expected = 0;
    int64_t stepper = stepper_of(h, arena), stage = stepper < 0 ? -2 : stage_of(h, stepper, &expected, arena);
    int64_t *t_ns = tide_arena_take(arena, expected + 1, sizeof *t_ns);
    double *step = tide_arena_take(arena, expected + 1, sizeof *step);
    if (stage < -1 || !t_ns || !step)
        return tide_err_set(err, "not enough memory for %zu marks", h->mark_count);
    size_t n = 0;
    double shift = 0, before = 0;
    for (size_t i = 0; i < h->mark_count && n < expected; i++) {
        const struct tide_history_mark *m = &h->marks[i];
        if (m->kind != TIDE_MARK_STEP || m->process != stepper || m->name != stage)
            continue;
        double raw = (double)m->number;
        if (n && raw < before)
            shift += before - raw + 1;
        before = raw;
        if (n && step[n - 1] == raw + shift)
            continue;
        t_ns[n] = m->t_ns;
        step[n++] = raw + shift;
    }
    ret->told = n;
    if (n < 2 || (n < FEWEST_STEPS && h->tick_count >= FEWEST_TICKS))
        return 0;
    ret->bursts = is_bursts(h, t_ns, n);
    if (ret->bursts)
        return 0;
    double seconds = (double)(t_ns[n - 1] - t_ns[0]) / 1e9;
    double mark_gap = (double)(t_ns[n - 1] - t_ns[0]) / (double)(n - 1);
    *ret = (struct tide_axis){.is_steps = true,
                              .told = n,
                              .process = stepper,
                              .t_ns = t_ns,
                              .step = step,
                              .count = n,
                              .end_ns = end_of(h, stepper, t_ns[n - 1], mark_gap),
                              .seconds_per_step = seconds > 0 ? seconds / (step[n - 1] - step[0]) : NAN};
    look_past(h, stage, (int64_t)(LAST_STEP * mark_gap), arena, ret);
    return 0;
}

double tide_axis_at(const struct tide_axis *axis, int64_t t_ns)
{
    if (t_ns > axis->end_ns)
        return NAN;
    if (!axis->is_steps)
        return t_ns < axis->begin_ns ? NAN : (double)t_ns / 1e9;
    size_t begun = tide_until(axis->t_ns, sizeof *axis->t_ns, axis->count, t_ns);
    return begun == 0 ? NAN : axis->step[begun - 1];
}
