/*
 * retained.c - does the program hold what rises? Compares the verdict on a process with what its program has
 * live and what its allocator keeps.
 */
#include "assess/assessment_private.h"
#include "assess/moment.h"
#include "assess/stacks.h"
#include "judge/fit.h"
#include "judge/thresholds.h"

#include <math.h>

#define PAGE 4096.0

static const double LOST_MOST = 0.01;   /* of the samples: if more are lost, live bytes are not known */
static const double INSIDE_SAMPLES = 4; /* fewer in a row may be chance */
static const double UNSEEN_SAMPLES = 3; /* if so many are expected, none comes one time in twenty */
static const double LATE_MOST = 0.1;    /* of the stretch: a process first seen later was not seen to grow */

/* True if the allocations that were seen add up to what the process holds. */
static bool is_seen(const struct tide_history *h, int64_t process)
{
    const struct tide_heap_status *last = tide_history_heap_status(h, process);
    if (!last || !tide_heap_is_seen(last))
        return false;
    double lost = fmax((double)last->dropped_sites, 0) + fmax((double)last->dropped_blocks, 0);
    return lost <= LOST_MOST * fmax((double)last->sampled, 1);
}

/* Returns what the allocator said at a time, or first after it. NULL: it never did. */
static const struct tide_history_heap_point *asked_at(const struct tide_history_process *p, int64_t t_ns)
{
    const struct tide_history_heap_point *found = NULL;
    for (size_t i = 0; i < p->heap_count && (!found || p->heap[i].t_ns <= t_ns); i++)
        if (p->heap[i].free_bytes >= 0)
            found = &p->heap[i];
    return found;
}

/* Returns the point at a time, or the first after it. */
static const struct tide_history_point *point_at(const struct tide_history_process *p, int64_t t_ns)
{
    const struct tide_history_point *found = tide_history_point_at(p, t_ns);
    return found ? found : p->points;
}

/*
 * malloc_trim gives back whole pages. In a piece of s bytes at a random place, s less a page are whole pages
 * on average, and never more than s. Both bounds hold for the sum over pieces of any sizes, the lower one
 * because it is convex in s.
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

/* Returns what a process allocated between two times, freed or not; INFINITY: not known, since only some of
 * what was sampled became a row. */
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

/* Finds the free bytes at two times. If the allocator cannot be asked, what could be its: not shared memory,
 * and no more than was allocated. */
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

/* Returns what the process has mapped that no line of the program asked for: the heap of a runtime. */
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

/* Makes the series of live bytes; 0 points if it was not seen from the beginning of the stretch on. */
static int live_series(struct tide_assessing *s, const struct tide_history_process *p,
                       const struct tide_verdict *v, struct tide_judge_input *ret_live)
{
    struct tide_level *levels = tide_arena_take(s->scratch, p->heap_count + 1, sizeof *levels);
    size_t count = p->heap_count;
    if (!levels)
        return tide_assessing_no_memory(s->err);
    /* The last look may see the process free its memory as it ends. */
    size_t looks = p->row.ended_ns == TIDE_UNKNOWN ? 0 : tide_history_tick_from(s->h, p->row.ended_ns);
    while (looks > 0 && count > 1 && p->heap[count - 1].t_ns >= s->h->ticks[looks - 1].t_ns)
        count--;
    for (size_t i = 0; i < count; i++)
        levels[i] = (struct tide_level){p->heap[i].t_ns, (double)p->heap[i].live_bytes};
    if (tide_assessing_series(s, levels, count, p->heap[0].t_ns, tide_assessing_end(s, p), false, ret_live))
        return -1;
    ret_live->phase_of = NULL; /* what is held is not the spikes of a phase */
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

void tide_assessing_flat(struct tide_verdict *v, double detectable)
{
    v->kind = TIDE_FLAT;
    v->shape = TIDE_SHAPE_LEVEL;
    v->confidence = 0.5;
    v->limit_x = v->limit_x_low = v->limit_x_high = NAN;
    v->steps_needed = v->needed_for = NAN;
    v->detectable = detectable;
}

void tide_assessing_doubt(struct tide_verdict *v, double steps_needed)
{
    tide_assessing_flat(v, v->slope);
    v->kind = TIDE_UNDECIDED;
    v->shape = TIDE_SHAPE_UNKNOWN;
    v->steps_needed = steps_needed;
    v->needed_for = v->slope;
}

/* The rate of live bytes, per step or second, between two places, with its 95 % interval. */
struct rate {
    double from_x, to_x, mean, low, high;
};

/* Returns by how many samples live memory changed in the stretch of a rate: of a process on the host, or of
 * tensors of it or of all processes. ret_each: bytes per sample. Without call sites, all is sampled. */
static double samples_of(const struct tide_assessing *s, int64_t process, bool tensors, const struct rate *r,
                         double *ret_each)
{
    const double seen = 7. / 8; /* of a steady growth: tide_moment_growth() compares the lowest of eighths */
    int64_t from_ns = tide_assessing_time(s, r->from_x), to_ns = tide_assessing_time(s, r->to_x);
    double every = tide_moment_interval(s->h, process), count = 0, bytes = 0;
    bool any = false;
    for (size_t i = 0; i < s->h->site_count; i++) {
        const struct tide_history_site *site = &s->h->sites[i];
        bool is_one = tensors ? site->kind == TIDE_SITE_TENSOR && (process <= 0 || site->process == process)
                              : !tide_site_is_on_device(site) && site->process == process;
        const struct tide_history_site_point *last =
            site->id != 0 && is_one ? tide_moment_point(site, to_ns) : NULL;
        if (!last)
            continue;
        any = true;
        every = fmax(every, tide_moment_interval(s->h, site->process));
        double size = last->live_blocks > 0 ? (double)last->live_bytes / (double)last->live_blocks : 0;
        double p = size > 0 ? tide_moment_sampled(s->h, site, size) : 1;
        double change = p < 1 ? fabs(tide_moment_growth(site, from_ns, to_ns)) / seen : 0;
        bytes += change;
        count += change > 0 ? change * p / size : 0;
    }
    every *= tensors ? TIDE_SITE_TENSOR_INTERVALS : 1;
    *ret_each = count > 0 ? bytes / count : every;
    return any || !(every > 0) ? count : fabs(r->mean) * (r->to_x - r->from_x) / every;
}

/*
 * Adds the error of the number of samples, which is Poisson distributed, to that of the line. A sample counts
 * for as long as its block lives, so the error is a random walk, which a line follows without residuals.
 */
static void widen(const struct tide_assessing *s, int64_t process, bool tensors, struct rate *r)
{
    double each, samples = samples_of(s, process, tensors, r, &each), unit = each / (r->to_x - r->from_x);
    r->low = r->mean - tide_error_of_both(r->mean - r->low, unit * tide_poisson_below95(samples));
    r->high = r->mean + tide_error_of_both(r->high - r->mean, unit * tide_poisson_above95(samples));
}

/* Drops the points before from_x. */
static void cut_before(struct tide_judge_input *series, double from_x)
{
    size_t first = 0;
    while (first < series->count && series->x[first] < from_x)
        first++;
    series->x += first;
    series->bytes += first;
    series->count -= first;
}

/* True if more was held once than in the last third behind from_x, and the fall from there undid a rise: what
 * rises lately may be the next tooth of a saw. What fell below all that was held before was freed for good.
 */
static bool is_sawtooth(const struct tide_judge_input *series, double from_x)
{
    double lately = -INFINITY, bottom = INFINITY, low = 0;
    double last_x = series->count ? series->x[series->count - 1] : from_x;
    size_t top = 0;
    for (size_t i = 0; i < series->count; i++) {
        if (series->x[i] >= from_x + TIDE_LATELY * (last_x - from_x))
            lately = fmax(lately, series->bytes[i]);
        else if (series->bytes[i] > series->bytes[top])
            top = i;
    }
    for (size_t i = top; i < series->count; i++)
        bottom = fmin(bottom, series->bytes[i]);
    for (size_t i = 0; i < top; i++)
        low += series->bytes[i] < bottom + TIDE_DROP_BELOW * (series->bytes[top] - bottom);
    return series->count && series->bytes[top] > lately && low > TIDE_DROP_UNUSUAL * (double)top;
}

/* Finds the rate between two places, by a line through the floor. 1; 0: too few points; -1: no memory. */
static int rate_between(struct tide_assessing *s, struct tide_judge_input series, double from_x, double to_x,
                        struct rate *ret_rate)
{
    struct tide_drift drift;
    while (series.count > 0 && series.x[series.count - 1] > to_x)
        series.count--;
    int known = series.count > 0 ? tide_judge_drift(&series, from_x, s->scratch, &drift, s->err) : 0;
    if (known > 0)
        *ret_rate = (struct rate){from_x, to_x, drift.slope, drift.slope_low, drift.slope_high};
    return known;
}

/* Sets the rate of a leak of live bytes. Sampling noise bends an even rise. So, unless the rate before the
 * last part is surely different, the rate is that of a line through all. -1: no memory. */
static int set_rate(struct tide_assessing *s, int64_t process, const struct tide_judge_input *live,
                    struct tide_verdict *v)
{
    struct rate rate = {v->slope_x, v->x_last, v->slope, v->slope_low, v->slope_high}, before, all;
    widen(s, process, false, &rate);
    int known = v->slope_x > v->start_x ? rate_between(s, *live, v->start_x, v->x_last, &all) : 0,
        known_before = known > 0 ? rate_between(s, *live, v->start_x, v->slope_x, &before) : 0;
    if (known < 0 || known_before < 0)
        return -1;
    if (known_before > 0)
        widen(s, process, false, &before);
    bool another = known_before > 0 && (before.high < rate.low || before.low > rate.high);
    if (known > 0 && !another) {
        rate = all;
        widen(s, process, false, &rate);
        v->shape = TIDE_SHAPE_LINEAR;
        v->since_x = v->slowed_x = NAN;
    }
    v->slope_x = rate.from_x;
    v->slope = rate.mean;
    v->slope_low = fmax(rate.low, 0);
    v->slope_high = rate.high;
    return 0;
}

/* Memory that rises ever faster may only have used what was free at first. Sets *ret_filled if, before the
 * part that the rate is of, live bytes rose nearer to that rate than to memory's rate then. -1: no memory. */
static int find_filled_first(struct tide_assessing *s, const struct tide_judge_input *live,
                             const struct tide_verdict *v, bool *ret_filled)
{
    struct rate held;
    if (v->kind != TIDE_LEAK || v->shape != TIDE_SHAPE_ACCELERATING)
        return 0;
    int known = rate_between(s, *live, v->start_x, v->slope_x, &held);
    double before = (v->growth_bytes - v->slope * (v->x_last - v->slope_x)) / (v->slope_x - v->start_x);
    *ret_filled = known > 0 && held.mean > (before + v->slope) / 2;
    return known < 0 ? -1 : 0;
}

/* What is held fell, and as a whole it does not leak. If it has only risen since from_x, that is undecided:
 * it takes as long again to see it fall again. -1: no memory. */
static int find_ramp(struct tide_assessing *s, struct tide_judge_input live, double from_x,
                     struct tide_judged *j)
{
    struct tide_verdict since;
    cut_before(&live, from_x);
    if (live.count == 0 || tide_judge(&live, s->scratch, &since, s->err))
        return live.count == 0 ? 0 : -1;
    if (since.kind != TIDE_LEAK)
        return 0;
    j->may_go_on = true;
    j->verdict.slope = since.slope;
    tide_assessing_doubt(&j->verdict, since.x_last - since.x_first);
    return 0;
}

/* Memory is level from from_x on. Live bytes may leak all the same, as long as they fit into what the process
 * had or are not touched: then the verdict is on live bytes. */
static int find_inside(struct tide_assessing *s, const struct tide_history_process *p, struct tide_judged *j,
                       double from_x)
{
    struct tide_judged held = *j;
    struct tide_verdict *v = &held.verdict;
    struct tide_judge_input live;
    double interval = tide_moment_interval(s->h, p->row.id);
    if (live_series(s, p, v, &live))
        return -1;
    bool sawtooth = isfinite(from_x) && is_sawtooth(&live, from_x);
    if (!sawtooth)
        cut_before(&live, from_x);
    if (live.count == 0 || tide_judge(&live, s->scratch, v, s->err))
        return live.count == 0 ? 0 : -1;
    if (sawtooth && v->kind != TIDE_LEAK)
        return find_ramp(s, live, from_x, j);
    double samples = interval > 0 ? v->growth_bytes / interval : INFINITY;
    if (v->kind != TIDE_LEAK || samples < INSIDE_SAMPLES || tide_assessing_left_of_start(s, &held) > 0)
        return 0;
    if (set_rate(s, p->row.id, &live, v))
        return -1;
    v->floor_first = j->verdict.floor_first;
    v->floor_last = j->verdict.floor_last;
    v->peak = j->verdict.peak;
    v->limit_x = v->limit_x_low = v->limit_x_high = NAN;
    held.inside = true;
    *j = held;
    return 0;
}

/* Memory has stopped rising, and live bytes rose before. Finds how much longer it takes until samples can
 * tell that they have stopped, too; 0: they do. */
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
    double unseen = UNSEEN_SAMPLES * tide_moment_interval(s->h, p->row.id);
    if (known > 0 && since.slope_high + unseen / length >= r->live_low)
        *ret_steps = fmax(unseen / r->live_low - length, length);
    return known < 0 ? -1 : 0;
}

/* Widens the interval of live bytes by the error of their samples. */
static void widen_live(const struct tide_assessing *s, int64_t process, bool tensors, struct tide_judged *j)
{
    struct tide_retention *r = &j->retention;
    const struct tide_verdict *v = &j->verdict;
    struct rate rate = {v->start_x, v->x_last, r->live_per_x, r->live_low, r->live_high};
    widen(s, process, tensors, &rate);
    r->live_low = rate.low;
    r->live_high = rate.high;
}

/* Returns where training surely ends. Nobody says when the last step was over: a program that ended well may
 * have done something else by then, such as save its model; if it was killed, that step matters most. */
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
        if (status || level || j->inside || j->may_go_on)
            return status;
    }
    int64_t from_ns = tide_assessing_time(s, v->start_x), to_ns = tide_assessing_time(s, v->x_last);
    struct tide_retention_input input = {
        .verdict = v, .until_x = until(s, v), .managed_bytes = managed_at(s->h, p->row.id, to_ns)};
    kept_between(s->h, p, from_ns, to_ns, &input.kept_first, &input.kept_last);
    double needed = 0;
    bool filled_first = false;
    int known = live_series(s, p, v, &input.live)
                    ? -1
                    : tide_retention_judge(&input, s->scratch, &j->retention, s->err);
    if (known > 0 &&
        (find_needed(s, p, j, &input.live, &needed) || find_filled_first(s, &input.live, v, &filled_first)))
        known = -1;
    tide_arena_rewind(s->scratch, mark);
    if (known <= 0)
        return known;
    j->live_known = true;
    widen_live(s, p->row.id, false, j);
    j->kept = kept_of(asked_at(p, to_ns), j->retention.not_live_bytes, (double)point_at(p, to_ns)->threads);
    if (filled_first)
        v->shape = TIDE_SHAPE_LINEAR;
    double matters = fmax(TIDE_RETENTION_LEAST * v->floor_last, TIDE_LEAK_LEAST);
    if (needed > 0) {
        v->slope = j->retention.live_per_x;
        j->may_go_on = true;
        tide_assessing_doubt(v, needed);
    } else if (j->retention.retains && v->growth_bytes >= matters)
        v->kind = TIDE_RETENTION;
    else if (j->retention.retains && v->kind == TIDE_LEAK) /* small so far; it may grow to a finding */
        tide_assessing_doubt(v, (matters - v->growth_bytes) / v->slope);
    else if (j->retention.fills && v->kind == TIDE_LEAK)
        tide_assessing_fill(
            j, fmax(j->retention.live_bytes + fmax(j->retention.not_live_bytes, 0), v->floor_last));
    return 0;
}

/* Returns what the tensors of a process take up on its GPU at each look. *ret_any: there are some. */
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

/* True if tensors that count for a GPU may be on another one: which one they are on is not recorded. */
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
                                      false, &input.live)
                    ? -1
                    : tide_retention_judge(&input, s->scratch, &retention, s->err);
    tide_arena_rewind(s->scratch, mark);
    if (!levels)
        return tide_assessing_no_memory(s->err);
    if (known > 0 && retention.freed_again) {
        j->live_known = true;
        j->retention = retention;
        widen_live(s, j->process, true, j);
        j->kept = kept_of(NULL, NAN, NAN);
    }
    return known < 0 ? -1 : 0;
}
