/*
 * retained.c - whether somebody holds what rises: the verdict on a process beside what its program has live
 * and what its allocator keeps.
 */
#include "assess/assessment_private.h"
#include "assess/moment.h"
#include "assess/stacks.h"
#include "judge/fit.h"
#include "judge/thresholds.h"

#include <math.h>

#define PAGE 4096.0

static const double LOST_MOST = 0.01;   /* of the samples: more, and what is live is not known */
static const double INSIDE_SAMPLES = 4; /* fewer that come one after another may be chance */
static const double UNSEEN_SAMPLES = 3; /* so many are expected, and none comes, one time in twenty */
static const double LATE_MOST = 0.1;    /* of the stretch: who is seen from later on was not seen grow */

/* Whether the sum of what was seen allocated is what the process holds. */
static bool is_seen(const struct tide_history *h, int64_t process)
{
    const struct tide_heap_status *last = tide_history_heap_status(h, process);
    if (!last || !tide_heap_is_seen(last))
        return false;
    double lost = fmax((double)last->dropped_sites, 0) + fmax((double)last->dropped_blocks, 0);
    return lost <= LOST_MOST * fmax((double)last->sampled, 1);
}

/* What was known of the allocator at a time, or first after it. NULL: nothing ever was. */
static const struct tide_history_heap_point *asked_at(const struct tide_history_process *p, int64_t t_ns)
{
    const struct tide_history_heap_point *found = NULL;
    for (size_t i = 0; i < p->heap_count && (!found || p->heap[i].t_ns <= t_ns); i++)
        if (p->heap[i].free_bytes >= 0)
            found = &p->heap[i];
    return found;
}

/* At a time, or first after it. */
static const struct tide_history_point *point_at(const struct tide_history_process *p, int64_t t_ns)
{
    const struct tide_history_point *found = tide_history_point_at(p, t_ns);
    return found ? found : p->points;
}

/*
 * malloc_trim gives back whole pages. Of a piece of s bytes at a place that is as good as random, s less a
 * page are whole pages on average, and never more than s. Both bounds hold for the sum over pieces of any
 * sizes, the lower one because it is convex in s.
 */
static struct tide_kept kept_of(const struct tide_history_heap_point *asked, double not_live, double threads)
{
    struct tide_kept kept = {NAN, NAN, NAN, NAN, NAN, threads};
    if (!asked)
        return kept;
    kept.free_bytes = (double)asked->free_bytes;
    kept.pieces = fmax((double)asked->free_blocks, 1);
    kept.top_bytes = fmin(fmax((double)asked->top_bytes, 0), kept.free_bytes);
    double holes = kept.free_bytes - kept.top_bytes;
    kept.trim_high = fmin(kept.free_bytes, fmax(not_live, 0));
    kept.trim_low = fmax(kept.top_bytes - PAGE, 0) + fmax(holes - PAGE * (kept.pieces - 1), 0);
    kept.trim_low = fmin(kept.trim_low, kept.trim_high);
    return kept;
}

enum tide_kept_where tide_kept_where(const struct tide_kept *k)
{
    if (isnan(k->free_bytes))
        return TIDE_KEPT_UNKNOWN;
    if (k->top_bytes >= k->free_bytes / 2)
        return TIDE_KEPT_AT_THE_END;
    return k->trim_low >= k->free_bytes / 2 ? TIDE_KEPT_IN_PAGES : TIDE_KEPT_IN_HOLES;
}

/* What the lines of a process asked for between two times, whether or not they gave it back; INFINITY: not
 * known, since only some of what was sampled became a row. */
static double asked_for(const struct tide_history *h, int64_t process, int64_t from_ns, int64_t to_ns)
{
    double sum = 0;
    bool any = false;
    for (size_t i = 0; i < h->site_count; i++) {
        const struct tide_history_site *site = &h->sites[i];
        if (site->id == 0 || site->process != process || tide_site_is_on_device(site))
            continue;
        const struct tide_history_site_point *first = tide_moment_point(site, from_ns),
                                             *last = tide_moment_point(site, to_ns);
        any = true;
        if (last && last->total_bytes == TIDE_UNKNOWN)
            return INFINITY;
        sum += last ? (double)(last->total_bytes - (first ? first->total_bytes : 0)) : 0;
    }
    return any || tide_history_heap_status(h, process)->sampled <= 0 ? sum : INFINITY;
}

/* Free bytes at two times. Where the allocator cannot be asked, what could be its: shared memory is not, and
 * it keeps no more than was asked of it. */
static void kept_between(const struct tide_history *h, const struct tide_history_process *p, int64_t from_ns,
                         int64_t to_ns, double *ret_first, double *ret_last)
{
    const struct tide_history_heap_point *first = asked_at(p, from_ns), *last = asked_at(p, to_ns);
    const struct tide_history_point *before = point_at(p, from_ns), *after = point_at(p, to_ns);
    if (first) {
        *ret_first = (double)first->free_bytes;
        *ret_last = (double)last->free_bytes;
        return;
    }
    double grown =
        (double)(after->private_bytes - after->shared_bytes - before->private_bytes + before->shared_bytes);
    *ret_first = 0;
    *ret_last = fmin(grown, asked_for(h, p->row.id, from_ns, to_ns));
}

/* What the process has mapped at a time that no line of the program asked for: the heap of a runtime. */
static double managed_at(const struct tide_history *h, int64_t process, int64_t t_ns)
{
    double sum = 0;
    for (size_t i = 0; i < h->site_count; i++) {
        const struct tide_history_site *site = &h->sites[i];
        if (site->id == 0 || site->process != process || site->kind != TIDE_SITE_MMAP ||
            tide_stack_is_asked_for(h, site->stack))
            continue;
        const struct tide_history_site_point *point = tide_moment_point(site, t_ns);
        sum += point ? fmax((double)point->live_bytes, 0) : 0;
    }
    return sum;
}

/* What is live, as a series; 0 points when it was not seen from the beginning of the stretch on. */
static int live_series(struct tide_assessing *s, const struct tide_history_process *p,
                       const struct tide_verdict *v, struct tide_judge_input *ret_live)
{
    struct tide_level *levels = tide_arena_take(s->scratch, p->heap_count + 1, sizeof *levels);
    size_t count = p->heap_count;
    if (!levels)
        return tide_assessing_no_memory(s->err);
    /* The last look may be at one that gives back its memory as it ends. */
    size_t looks = p->row.ended_ns == TIDE_UNKNOWN ? 0 : tide_history_tick_from(s->h, p->row.ended_ns);
    while (looks > 0 && count > 1 && p->heap[count - 1].t_ns >= s->h->ticks[looks - 1].t_ns)
        count--;
    for (size_t i = 0; i < count; i++)
        levels[i] = (struct tide_level){p->heap[i].t_ns, (double)p->heap[i].live_bytes};
    if (tide_assessing_series(s, levels, count, p->heap[0].t_ns, tide_assessing_end(s, p), ret_live))
        return -1;
    if (ret_live->count && ret_live->x[0] > v->start_x + LATE_MOST * (v->x_last - v->start_x))
        ret_live->count = 0;
    return 0;
}

void tide_assessing_fill(struct tide_judged *j, double ceiling_bytes)
{
    struct tide_verdict *v = &j->verdict;
    j->filling = true;
    v->kind = TIDE_PLATEAU;
    v->shape = TIDE_SHAPE_SATURATING;
    v->ceiling_bytes = ceiling_bytes;
    v->knee_x = NAN;
    v->limit_x = v->limit_x_low = v->limit_x_high = NAN;
}

void tide_assessing_doubt(struct tide_verdict *v, double steps_needed)
{
    v->kind = TIDE_UNDECIDED;
    v->shape = TIDE_SHAPE_UNKNOWN;
    v->confidence = 0.5;
    v->limit_x = v->limit_x_low = v->limit_x_high = NAN;
    v->steps_needed = steps_needed;
    v->needed_for = v->detectable = v->slope;
}

/* To the error of the line comes that of the samples that growth rests on: their number is Poisson's. */
static void widen(struct tide_verdict *v, double samples)
{
    double error = 1.96 * v->slope / sqrt(samples);
    v->slope_low = fmax(v->slope - tide_error_of_both(v->slope - v->slope_low, error), 0);
    v->slope_high = v->slope + tide_error_of_both(v->slope_high - v->slope, error);
}

/* Bytes, on average, from one sample of what is allocated to the next. */
static double sampled_every(const struct tide_history *h, const struct tide_history_process *p)
{
    return (double)tide_history_heap_status(h, p->row.id)->interval_bytes;
}

/* The part of a series from a place on. */
static void cut_before(struct tide_judge_input *series, double from_x)
{
    size_t first = 0;
    while (first < series->count && series->x[first] < from_x)
        first++;
    series->x += first;
    series->bytes += first;
    series->phase_of += series->phase_of ? first : 0;
    series->count -= first;
}

/* Memory is level from a place on. What the program holds may leak all the same, as long as that fits into
 * what the process had or is not touched: then the verdict is on that. */
static int find_inside(struct tide_assessing *s, const struct tide_history_process *p, struct tide_judged *j,
                       double from_x)
{
    struct tide_judged held = *j;
    struct tide_verdict *v = &held.verdict;
    struct tide_judge_input live;
    double interval = sampled_every(s->h, p);
    if (live_series(s, p, v, &live))
        return -1;
    cut_before(&live, from_x);
    if (live.count == 0 || tide_judge(&live, s->scratch, v, s->err))
        return live.count == 0 ? 0 : -1;
    double samples = interval > 0 ? v->growth_bytes / interval : INFINITY;
    if (v->kind != TIDE_LEAK || samples < INSIDE_SAMPLES || tide_assessing_left_of_start(s, &held) > 0)
        return 0;
    widen(v, samples);
    v->floor_first = j->verdict.floor_first;
    v->floor_last = j->verdict.floor_last;
    v->peak = j->verdict.peak;
    v->limit_x = v->limit_x_low = v->limit_x_high = NAN;
    held.inside = true;
    *j = held;
    return 0;
}

/* Memory has stopped rising; what the program holds rose before. How much longer it takes until samples can
 * tell that this has stopped, too; 0: they do. */
static int find_needed(struct tide_assessing *s, const struct tide_history_process *p,
                       const struct tide_judged *j, const struct tide_judge_input *live, double *ret_steps)
{
    const struct tide_verdict *v = &j->verdict;
    const struct tide_retention *r = &j->retention;
    struct tide_drift since;
    double length = v->x_last - v->knee_x;
    *ret_steps = 0;
    if (v->kind != TIDE_PLATEAU || !(length > 0) || !(r->live_low > 0))
        return 0;
    int known = tide_judge_drift(live, v->knee_x, s->scratch, &since, s->err);
    double unseen = UNSEEN_SAMPLES * sampled_every(s->h, p);
    if (known > 0 && since.slope_high + unseen / length >= r->live_low)
        *ret_steps = fmax(unseen / r->live_low - length, length);
    return known < 0 ? -1 : 0;
}

/* When the last step was over nobody said. Of a program that ended well it may have done something else by
 * then, such as to save what it trained; of one that was killed that step is what matters most. */
static double until(const struct tide_assessing *s, const struct tide_verdict *v)
{
    return s->axis.is_steps && s->h->exit_status == 0 ? nextafter(v->x_last, v->x_first) : INFINITY;
}

int tide_assessing_retention(struct tide_assessing *s, const struct tide_history_process *p,
                             struct tide_judged *j)
{
    struct tide_verdict *v = &j->verdict;
    if (p->heap_count == 0 || p->point_count == 0 || !is_seen(s->h, p->row.id))
        return 0;
    struct tide_arena_mark mark = tide_arena_mark(s->scratch);
    bool level = v->kind == TIDE_FLAT || v->kind == TIDE_SPIKES;
    if (level || v->kind == TIDE_PLATEAU) {
        int status = find_inside(s, p, j, level ? -INFINITY : v->knee_x);
        tide_arena_rewind(s->scratch, mark);
        if (status || level || j->inside)
            return status;
    }
    int64_t from_ns = tide_assessing_time(s, v->start_x), to_ns = tide_assessing_time(s, v->x_last);
    struct tide_retention_input input = {
        .verdict = v, .until_x = until(s, v), .managed_bytes = managed_at(s->h, p->row.id, to_ns)};
    kept_between(s->h, p, from_ns, to_ns, &input.kept_first, &input.kept_last);
    double needed = 0;
    int known = live_series(s, p, v, &input.live)
                    ? -1
                    : tide_retention_judge(&input, s->scratch, &j->retention, s->err);
    if (known > 0 && find_needed(s, p, j, &input.live, &needed))
        known = -1;
    tide_arena_rewind(s->scratch, mark);
    if (known <= 0)
        return known;
    j->live_known = true;
    j->kept = kept_of(asked_at(p, to_ns), j->retention.not_live_bytes, (double)point_at(p, to_ns)->threads);
    double matters = fmax(TIDE_RETENTION_LEAST * v->floor_last, TIDE_LEAK_LEAST);
    if (needed > 0) {
        v->slope = j->retention.live_per_x;
        j->may_go_on = true;
        tide_assessing_doubt(v, needed);
    } else if (j->retention.retains && v->growth_bytes >= matters)
        v->kind = TIDE_RETENTION;
    else if (j->retention.retains && v->kind == TIDE_LEAK) /* a small part; it may become a finding */
        tide_assessing_doubt(v, (matters - v->growth_bytes) / v->slope);
    else if (j->retention.fills && v->kind == TIDE_LEAK)
        tide_assessing_fill(
            j, fmax(j->retention.live_bytes + fmax(j->retention.not_live_bytes, 0), v->floor_last));
    return 0;
}

/* What the tensors of a process take up on its GPU, at each look; *ret_any: whether there are any. */
static struct tide_level *tensor_levels(const struct tide_assessing *s, int64_t process, bool *ret_any)
{
    const struct tide_history *h = s->h;
    double *changes = tide_arena_take(s->scratch, h->tick_count + 1, sizeof *changes), sum = 0;
    struct tide_level *levels = tide_arena_take(s->scratch, h->tick_count + 1, sizeof *levels);
    if (!changes || !levels)
        return NULL;
    for (size_t i = 0; i < h->site_count; i++) {
        const struct tide_history_site *site = &h->sites[i];
        if (site->kind != TIDE_SITE_TENSOR || (process > 0 && site->process != process))
            continue;
        *ret_any = true;
        tide_moment_add_changes(h, site, changes);
    }
    for (size_t i = 0; i < h->tick_count; i++)
        levels[i] = (struct tide_level){h->ticks[i].t_ns, sum += changes[i]};
    return levels;
}

/* Whether tensors that a GPU is judged by may be on another one: on which they are is not recorded. */
static bool are_elsewhere(const struct tide_history *h, const struct tide_judged *j)
{
    for (size_t i = 0; i < h->gpu_count; i++) {
        const struct tide_history_gpu *row = &h->gpu[i];
        bool same = row->process == j->process || row->process == TIDE_UNKNOWN || j->process <= 0;
        if (row->device != j->device && row->process != 0 && same && row->bytes > 0)
            return true;
    }
    return false;
}

int tide_assessing_tensors(struct tide_assessing *s, struct tide_judged *j)
{
    if (are_elsewhere(s->h, j))
        return 0;
    struct tide_arena_mark mark = tide_arena_mark(s->scratch);
    struct tide_retention_input input = {
        .verdict = &j->verdict, .until_x = until(s, &j->verdict), .kept_first = NAN, .kept_last = NAN};
    struct tide_retention retention;
    bool any = false;
    int known = 0;
    struct tide_level *levels = tensor_levels(s, j->process, &any);
    if (levels && any)
        known = tide_assessing_series(s, levels, s->h->tick_count, levels[0].t_ns, s->bucket_ns[s->buckets],
                                      &input.live)
                    ? -1
                    : tide_retention_judge(&input, s->scratch, &retention, s->err);
    tide_arena_rewind(s->scratch, mark);
    if (!levels)
        return tide_assessing_no_memory(s->err);
    if (known > 0 && retention.freed_again) {
        j->live_known = true;
        j->retention = retention;
        j->kept = kept_of(NULL, NAN, NAN);
    }
    return known < 0 ? -1 : 0;
}
