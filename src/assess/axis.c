#include "assess/axis.h"

#include <math.h>

enum {
    FEWEST_STEPS = 12,
    FEWEST_TICKS = 48,
    FEWEST_BURSTS = 8,
    BURST_STEPS = 3,
    BURST_LOOKS = 3,
    FEWEST_EPOCHS = 3,
    EPOCHS_SHARE = 4, /* at least a quarter of the run */
};

static const double LAST_STEP =
    1.25; /* times the mean step: how long the last one may take before the program's end begins */

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
    tide_axis_look_past(h, stage, (int64_t)(LAST_STEP * mark_gap), arena, ret);
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
