#include "judge/retention.h"
#include "judge/floor.h"
#include "judge/thresholds.h"

#include <math.h>

/* Quantile of the live bytes at the points between two x; NAN if there are none. work has room for all. */
static double quantile(const struct tide_judge_input *live, double from, double to, double share,
                       double *work)
{
    size_t n = 0;
    for (size_t i = 0; i < live->count; i++)
        if (live->x[i] >= from && live->x[i] <= to)
            work[n++] = live->bytes[i];
    return n > 0 ? tide_kth(work, n, (size_t)(share * (double)n)) : NAN;
}

/* How often live bytes reach `bytes` between two x: the share of places where they do, the last such place,
 * and how many times they rise to it. */
struct reached {
    double share, last_x;
    size_t times;
};

static struct reached find_reached(const struct tide_judge_input *live, double from, double to, double bytes)
{
    struct reached r = {.last_x = NAN};
    size_t places = 0, above = 0;
    double x = NAN;
    bool is_above = false;
    for (size_t i = 0; i < live->count; i++) {
        if (live->x[i] < from || live->x[i] > to)
            continue;
        places += live->x[i] != x;
        x = live->x[i];
        r.times += !is_above && live->bytes[i] >= bytes;
        is_above = live->bytes[i] >= bytes;
        above += is_above && r.last_x != x;
        r.last_x = is_above ? x : r.last_x;
    }
    r.share = (double)above / (double)places;
    return r;
}

/* Also true if the verdict beside the jump is undecided. */
static bool has_jumped(const struct tide_verdict *v)
{
    return v->kind == TIDE_JUMP || (v->kind == TIDE_UNDECIDED && v->jump_bytes > 0);
}

/* Returns x up to which memory had not risen: a jump, or a third of the way to the knee or to the end. (A
 * third of the run may hold the whole of an early rise.) */
static double before_rise(const struct tide_verdict *v)
{
    double risen = v->kind == TIDE_PLATEAU && v->knee_x > v->start_x ? v->knee_x : v->x_last;
    return has_jumped(v) ? v->jump_after : v->start_x + (1 - TIDE_LATELY) * (risen - v->start_x);
}

int tide_retention_judge(const struct tide_retention_input *input, struct tide_arena *scratch,
                         struct tide_retention *ret_retention, struct tide_err *err)
{
    const struct tide_verdict *v = input->verdict;
    bool rose = v->kind == TIDE_LEAK || v->kind == TIDE_PLATEAU || has_jumped(v);
    double growth = v->kind == TIDE_UNDECIDED ? v->jump_bytes : v->growth_bytes,
           length = v->x_last - v->start_x;
    if (!rose || !(growth > 0) || !(length > 0) || input->live.count == 0)
        return 0;
    struct tide_drift live;
    int known = tide_judge_drift(&input->live, v->start_x, scratch, &live, err);
    if (known <= 0)
        return known;
    struct tide_arena_mark mark = tide_arena_mark(scratch);
    double *work = tide_arena_take(scratch, input->live.count, sizeof *work);
    if (!work)
        return tide_err_set(err, "not enough memory to judge %zu samples", input->live.count);
    double late = v->start_x + TIDE_LATELY * length, before = before_rise(v);
    /* Live bytes of the last third: their lower quartile. Their floor would be too low because of sampling
     * noise, their median too high where work in progress lasts for half of the time. */
    double usual = quantile(&input->live, late, INFINITY, 0.25, work);
    double crest = quantile(&input->live, late, input->until_x, TIDE_RETENTION_CREST, work);
    double first = quantile(&input->live, v->start_x, before, TIDE_RETENTION_CREST, work);
    if (v->kind == TIDE_LEAK)
        first = fmax(first, quantile(&input->live, before, late, TIDE_RETENTION_CREST, work));
    tide_arena_rewind(scratch, mark);
    if (isnan(usual) || isnan(crest))
        return 0;
    double most = fmax(live.slope_high * length, live.growth_bytes);
    struct tide_retention r = {.live_per_x = live.slope,
                               .live_low = live.slope_low,
                               .live_high = live.slope_high,
                               .live_growth = live.growth_bytes,
                               .live_bytes = usual,
                               .not_live_bytes = v->floor_last - usual,
                               .before_x = before,
                               .crest_first = first,
                               .crest_last = crest,
                               .live_is_flat = most <= TIDE_RETENTION_LIVE * growth};
    struct reached high = find_reached(&input->live, late, input->until_x, (first + crest) / 2);
    bool once = v->kind == TIDE_LEAK && v->shape == TIDE_SHAPE_LINEAR && high.times < 2;
    r.crest_share = high.share;
    r.crest_x = high.last_x;
    r.crest_rises = !once && crest - first > TIDE_RETENTION_LIVE * growth;
    bool level = fmax(live.slope * length, live.growth_bytes) <= TIDE_RETENTION_LIVE * growth;
    r.freed_again = r.crest_rises && (r.live_is_flat || (level && crest - first >= growth / 2));
    if (v->kind == TIDE_UNDECIDED && !r.freed_again)
        return 0;
    double kept = input->kept_last - input->kept_first;
    r.retains = r.live_is_flat && !r.crest_rises && r.not_live_bytes >= (1 - TIDE_RETENTION_LIVE) * growth &&
                !(kept < TIDE_RETENTION_KEPT * growth);
    bool touched = r.live_is_flat && !r.crest_rises && r.not_live_bytes <= TIDE_RETENTION_LIVE * growth;
    r.fills = touched && r.not_live_bytes + input->managed_bytes <= TIDE_RETENTION_LIVE * growth;
    r.managed = touched && !r.fills;
    *ret_retention = r;
    return 1;
}
