/*
 * judge.c - decides. The road from samples to verdict:
 *
 *   samples -> moments (one per x) -> floor (one per window, spikes left out) -> warm-up left out -> nine
 * shapes fitted
 *   -> the simplest shape that explains the floor -> tests that must hold before it is called by its name ->
 * verdict
 *
 * A name is only given when its test holds; what falls between is undecided, and then the verdict says how
 * much longer would do.
 */
#include "judge/judge.h"
#include "judge/fit.h"
#include "judge/floor.h"
#include "judge/spikes.h"
#include "judge/thresholds.h"

#include <math.h>
#include <string.h>

struct judging {
    const struct tide_judge_input *input;
    struct tide_arena *scratch;
    struct tide_moments moments;
    struct tide_floor floor;
    double *x, *y; /* the kept floor, x as given */
    double *u;     /* x scaled to [0, 1] from `start` on */
    size_t n, start;
    double level, least_noise, correlation;
    struct tide_fit fits[TIDE_MODELS];
    struct tide_fit best;
    struct tide_verdict *v;
};

static double span_of(const struct judging *j)
{
    return j->x[j->n - 1] - j->x[j->start];
}

static size_t points_of(const struct judging *j)
{
    return j->n - j->start;
}

static double x_at(const struct judging *j, double u)
{
    return j->x[j->start] + u * span_of(j);
}

/* How sure a slope of t standard errors is, as a number of standard deviations of a normal (Wallace 1959). */
static double sureness(double t, double df)
{
    if (df < 1)
        df = 1;
    double z = (8 * df + 1) / (8 * df + 3) * sqrt(df * log1p(t * t / df));
    return t < 0 ? -z : z;
}

static double freedom(const struct judging *j, const struct tide_fit *fit)
{
    static const int parameters[] = {1, 2, 3, 3, 3, 3, 3, 4, 4};
    double widen = (1 + j->correlation) / (1 - j->correlation);
    return fmax((double)points_of(j) / widen - parameters[fit->model], TIDE_FREEDOM_LEAST);
}

static void fit_all(struct judging *j, double correlation)
{
    for (int m = 0; m < TIDE_MODELS; m++)
        tide_fit_model((enum tide_model)m, j->u, j->y + j->start, points_of(j), j->least_noise, correlation,
                       &j->fits[m]);
}

/* The simplest model within the margin of the best criterion. Models are in order of simplicity. */
static struct tide_fit simplest_good(const struct judging *j)
{
    static const enum tide_model simplicity[][6] = {
        {TIDE_MODEL_FLAT, TIDE_MODELS},
        {TIDE_MODEL_LINE, TIDE_MODELS},
        {TIDE_MODEL_JUMP, TIDE_MODEL_PLATEAU, TIDE_MODEL_ONSET, TIDE_MODEL_SATURATION, TIDE_MODEL_POWER,
         TIDE_MODELS},
        {TIDE_MODEL_BEND, TIDE_MODEL_JUMP_LINE, TIDE_MODELS},
    };
    double least = INFINITY;
    for (int m = 0; m < TIDE_MODELS; m++)
        least = fmin(least, j->fits[m].bic);
    for (size_t level = 0; level < sizeof simplicity / sizeof *simplicity; level++) {
        const struct tide_fit *best = NULL;
        for (const enum tide_model *m = simplicity[level]; *m != TIDE_MODELS; m++)
            if (!best || j->fits[*m].bic < best->bic)
                best = &j->fits[*m];
        if (best->bic <= least + TIDE_BIC_MARGIN)
            return *best;
    }
    return j->fits[TIDE_MODEL_FLAT];
}

/* Fits everything to the floor from `start` on; the autocorrelation comes from the best fit of a first round.
 */
static void fit_from(struct judging *j, size_t start)
{
    j->start = start;
    double span = span_of(j);
    for (size_t i = start; i < j->n; i++)
        j->u[i - start] = span > 0 ? (j->x[i] - j->x[start]) / span : 0;
    fit_all(j, 0);
    struct tide_fit first = simplest_good(j);
    j->correlation = tide_fit_correlation(&first, j->u, j->y + start, points_of(j));
    fit_all(j, j->correlation);
    j->best = simplest_good(j);
}

/* Leaves out the beginning as far as it does not fit what the rest says of it. */
static void skip_warmup(struct judging *j)
{
    double edge = j->x[0] + TIDE_WARMUP_SHARE * (j->x[j->n - 1] - j->x[0]);
    size_t first = 0;
    while (first < j->n && j->x[first] < edge)
        first++;
    if (first == 0 || j->n - first < TIDE_FEWEST_WINDOWS)
        return fit_from(j, 0);
    fit_from(j, first);
    double allowed = TIDE_WARMUP_NOISES * fmax(j->best.noise, j->floor.noise);
    size_t start = first;
    while (start > 0) {
        double u = (j->x[start - 1] - j->x[first]) / span_of(j);
        if (fabs(j->y[start - 1] - tide_fit_value(&j->best, u)) > allowed)
            break;
        start--;
    }
    if (start != first)
        fit_from(j, start);
}

/* ------------------------------------------------------------------------------------------------ verdicts
 */

/* The slope of a line through the floor from u on, with its error: what is happening now. */
static void line_from(const struct judging *j, double from, double *ret_tail, double *ret_error,
                      double *ret_freedom)
{
    size_t n = points_of(j), first = 0;
    while (first + 4 < n && j->u[first] < from)
        first++;
    struct tide_fit fit;
    tide_fit_model_at(TIDE_MODEL_LINE, 0, j->u + first, j->y + j->start + first, n - first, j->least_noise,
                      j->correlation, &fit);
    double widen = (1 + j->correlation) / (1 - j->correlation);
    *ret_tail = fit.beta[1];
    *ret_error = fit.error[1];
    *ret_freedom = fmax((double)(n - first) / widen - 2, TIDE_FREEDOM_LEAST);
}

/*
 * The slope at the end with its interval. Where the model has a bend, its place is not known exactly: the
 * line is fitted again to what lies surely behind it. A leak that accelerates is given the rate of its last
 * third.
 */
static void set_slope(struct judging *j, const struct tide_fit *fit, double df)
{
    double span = span_of(j), tail = fit->tail, error = fit->tail_error;
    if (fit->model == TIDE_MODEL_POWER)
        line_from(j, 2.0 / 3, &tail, &error, &df);
    if (fit->model == TIDE_MODEL_ONSET || fit->model == TIDE_MODEL_BEND)
        line_from(j, fmin(fit->k + 1.5 / (double)points_of(j), 0.9), &tail, &error, &df);
    double wide = TIDE_INTERVAL_WIDER * tide_t_quantile95(df) * error;
    j->v->slope = tail / span;
    j->v->slope_low = (tail - wide) / span;
    j->v->slope_high = (tail + wide) / span;
}

static double clamp(double value, double low, double high)
{
    return fmin(fmax(value, low), high);
}

/* Confidence of a choice between models: the weight of the criterion of all models that say the same. */
static double weight_of(const struct judging *j, const bool same[TIDE_MODELS])
{
    double least = INFINITY, all = 0, mine = 0;
    for (int m = 0; m < TIDE_MODELS; m++)
        least = fmin(least, j->fits[m].bic);
    for (int m = 0; m < TIDE_MODELS; m++) {
        double weight = exp(-(j->fits[m].bic - least) / 2);
        all += weight;
        mine += same[m] ? weight : 0;
    }
    return clamp(mine / all, 0.5, 0.999);
}

static void say_undecided(struct judging *j, double tail, double tail_error)
{
    struct tide_verdict *v = j->v;
    v->kind = TIDE_UNDECIDED;
    v->shape = TIDE_SHAPE_UNKNOWN;
    v->confidence = 0.5;
    double span = span_of(j), matter = fmax(fabs(tail), TIDE_FLAT_SHARE / 2 * j->level);
    /* The error of a slope falls with length to the power 3/2. */
    double longer = pow(fmax((TIDE_LEAK_Z + 1) * tail_error / matter, 1), 2.0 / 3);
    double whole = j->x[j->n - 1] - j->x[0];
    double windows = (double)TIDE_SHORT_MOMENTS / (double)j->moments.count;
    v->steps_needed = fmax(whole, span) * (clamp(fmax(longer, windows), 1.5, 1000) - 1);
    v->needed_for = matter / span;
    v->detectable = (TIDE_LEAK_Z * tail_error) / span;
}

static void say_level(struct judging *j)
{
    static const bool level[TIDE_MODELS] = {[TIDE_MODEL_FLAT] = true};
    j->v->kind = TIDE_FLAT;
    j->v->shape = TIDE_SHAPE_LEVEL;
    j->v->confidence = weight_of(j, level);
    j->v->detectable = TIDE_LEAK_Z * j->fits[TIDE_MODEL_LINE].error[1] / span_of(j);
}

static void say_leak(struct judging *j, enum tide_shape shape, const struct tide_fit *fit, double df)
{
    j->v->kind = TIDE_LEAK;
    j->v->shape = shape;
    set_slope(j, fit, df);
    double z = sureness(fit->tail / fmax(fit->tail_error, 1e-300), df);
    j->v->confidence = clamp(1 - 2 * tide_normal_tail(z - 2), 0.5, 0.999);
}

static void say_plateau(struct judging *j, double knee, double low, double high, double ceiling, double rate)
{
    static const bool bounded[TIDE_MODELS] = {
        [TIDE_MODEL_PLATEAU] = true, [TIDE_MODEL_SATURATION] = true, [TIDE_MODEL_BEND] = true};
    struct tide_verdict *v = j->v;
    v->kind = TIDE_PLATEAU;
    v->shape = TIDE_SHAPE_SATURATING;
    v->knee_x = knee;
    v->knee_low = low;
    v->knee_high = high;
    v->ceiling_bytes = ceiling;
    v->confidence = weight_of(j, bounded);
    if (!j->input->x_is_steps || !isfinite(j->input->items_per_step))
        return;
    v->bytes_per_item = rate / j->input->items_per_step;
    double pass = j->input->items / j->input->items_per_step, slack = TIDE_PASS_SLACK * pass;
    v->one_pass = pass >= low - slack && pass <= high + slack;
}

/* Whether a slope is large and sure enough to be called a leak. */
static bool is_leak(const struct judging *j, double tail, double tail_error, double share, double df)
{
    double rise = tail * share;
    return sureness(tail / fmax(tail_error, 1e-300), df) >= TIDE_LEAK_Z &&
           rise >= fmax(TIDE_LEAK_LEAST, TIDE_LEAK_SHARE * j->level);
}

/* A change of level counts when it stands out of the noise and matters against the level. */
static bool is_change(const struct judging *j, double bytes)
{
    return bytes >=
           fmax(TIDE_CHANGE_NOISES * fmax(j->best.noise, j->floor.noise), TIDE_CHANGE_SHARE * j->level);
}

/* The knee's interval: where the criterion is within 4 of its least (about two standard errors). */
static void knee_interval(const struct judging *j, enum tide_model model, double k, double *ret_low,
                          double *ret_high)
{
    size_t n = points_of(j);
    struct tide_fit fit;
    tide_fit_model_at(model, k, j->u, j->y + j->start, n, j->least_noise, j->correlation, &fit);
    double least = fit.bic, low = k, high = k;
    for (int i = 1; i < 200; i++) {
        double at = i / 200.0;
        tide_fit_model_at(model, at, j->u, j->y + j->start, n, j->least_noise, j->correlation, &fit);
        if (fit.bic > least + 4)
            continue;
        low = fmin(low, at);
        high = fmax(high, at);
    }
    *ret_low = low;
    *ret_high = high;
}

static void decide_plateau(struct judging *j, const struct tide_fit *fit)
{
    double k = fit->model == TIDE_MODEL_SATURATION ? fmin(3 * fit->k, 1) : fit->k;
    double rise = tide_fit_value(fit, 1) - tide_fit_value(fit, 0);
    double still, still_error, still_freedom;
    line_from(j, 2.0 / 3, &still, &still_error, &still_freedom);
    const struct tide_fit *bend = &j->fits[TIDE_MODEL_BEND];
    double mean = rise / fmax(k, 1e-3);
    bool stopped = still <= fmax(TIDE_PLATEAU_STILL * mean, 2.5 * still_error);
    if (fit->model == TIDE_MODEL_PLATEAU && k < 2.0 / 3 && bend->bic < fit->bic &&
        is_leak(j, bend->tail, bend->tail_error, 1 - bend->k, freedom(j, bend)) &&
        bend->tail > TIDE_PLATEAU_STILL * mean)
        stopped = false;
    if (!is_change(j, rise) || !stopped)
        return say_undecided(j, j->fits[TIDE_MODEL_LINE].beta[1], j->fits[TIDE_MODEL_LINE].error[1]);
    double low, high;
    knee_interval(j, fit->model, fit->k, &low, &high);
    if (fit->model == TIDE_MODEL_SATURATION) {
        low *= 3;
        high *= 3;
    }
    say_plateau(j, x_at(j, k), x_at(j, low), x_at(j, fmin(high, 1)), tide_fit_value(fit, 1),
                fit->beta[1] / span_of(j));
}

static void decide_bend(struct judging *j, const struct tide_fit *fit)
{
    double df = freedom(j, fit), share = 1 - fit->k;
    double before = fit->beta[1];
    if (is_leak(j, fit->tail, fit->tail_error, share, df) &&
        (before <= 0 || fit->tail > TIDE_PLATEAU_STILL * before))
        return say_leak(j, TIDE_SHAPE_LINEAR, fit, df);
    if (before > 0 && is_change(j, before * fit->k) && fit->tail <= TIDE_PLATEAU_STILL * before)
        return decide_plateau(j, &j->fits[TIDE_MODEL_PLATEAU]);
    if (fit->tail <= 0)
        return say_level(j);
    say_undecided(j, fit->tail, fit->tail_error);
}

static void decide_rising(struct judging *j, const struct tide_fit *fit)
{
    double df = freedom(j, fit);
    double share = fit->model == TIDE_MODEL_ONSET ? 1 - fit->k : 1;
    double still, still_error, still_freedom;
    line_from(j, 2.0 / 3, &still, &still_error, &still_freedom);
    if (!is_leak(j, fit->tail, fit->tail_error, share, df))
        return say_undecided(j, fit->tail, fit->tail_error);
    if (fit->model != TIDE_MODEL_ONSET && fit->model != TIDE_MODEL_POWER &&
        still < TIDE_LEAK_STILL * fit->tail && still < 2 * still_error)
        return say_undecided(j, still, still_error);
    enum tide_shape shape = fit->model == TIDE_MODEL_POWER ? TIDE_SHAPE_ACCELERATING : TIDE_SHAPE_LINEAR;
    say_leak(j, shape, fit, df);
}

static void decide_jump(struct judging *j, const struct tide_fit *fit)
{
    static const bool jumps[TIDE_MODELS] = {[TIDE_MODEL_JUMP] = true, [TIDE_MODEL_JUMP_LINE] = true};
    double height = fit->model == TIDE_MODEL_JUMP ? fit->beta[1] : fit->beta[2];
    if (height <= 0)
        return say_level(j);
    if (!is_change(j, height))
        return say_undecided(j, j->fits[TIDE_MODEL_LINE].beta[1], j->fits[TIDE_MODEL_LINE].error[1]);
    j->v->kind = TIDE_JUMP;
    j->v->shape = TIDE_SHAPE_STEP;
    j->v->confidence = weight_of(j, jumps);
    j->v->jump_bytes = height;
    size_t i = j->start; /* the first window behind the break */
    while (i + 1 < j->n && (j->x[i] - j->x[j->start]) / span_of(j) < fit->k)
        i++;
    /* Walk back from there to the last moment that was still below: the step came right after it. */
    double half = j->y[i] - height / 2;
    size_t m = j->moments.count - 1;
    while (m > 0 && j->moments.x[m] > j->x[i])
        m--;
    while (m > 0 && j->moments.low[m - 1] >= half)
        m--;
    j->v->jump_x = j->moments.x[m];
}

static void decide_level(struct judging *j)
{
    const struct tide_fit *line = &j->fits[TIDE_MODEL_LINE];
    double df = freedom(j, line), z = sureness(line->beta[1] / fmax(line->error[1], 1e-300), df);
    double most = line->beta[1] + tide_t_quantile95(df) * line->error[1];
    bool brief = j->moments.count < TIDE_SHORT_MOMENTS;
    bool small = most <= fmax((brief ? TIDE_FLAT_SHARE_BRIEF : TIDE_FLAT_SHARE) * j->level, TIDE_LEAK_LEAST);
    if (brief ? !small : z > TIDE_FLAT_Z && !small)
        return say_undecided(j, line->beta[1], line->error[1]);
    say_level(j);
}

/* ------------------------------------------------------------------------------------------------ staircase
 */

/* Rises that come in jumps: true, and the verdict is filled, when jumps explain the growth and have not
 * stopped. */
static bool decide_staircase(struct judging *j)
{
    size_t n = points_of(j);
    const double *x = j->x + j->start, *y = j->y + j->start;
    double *work = tide_arena_take(j->scratch, n, sizeof *work);
    if (!work || n < 8)
        return false;
    for (size_t i = 0; i + 1 < n; i++)
        work[i] = fabs(y[i + 1] - y[i]);
    double usual = tide_median(work, n - 1) / 0.6745;
    double tall = fmax(TIDE_STAIR_NOISES * fmax(usual, j->least_noise), TIDE_LEAK_LEAST);
    double rise = y[n - 1] - y[0], in_stairs = 0, down = 0, first_x = NAN, last_x = NAN, after_first = 0,
           tallest = 0;
    size_t stairs = 0, shortest_gap_windows = n, at = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        double step = y[i + 1] - y[i];
        if (step < -tall)
            down -= step;
        if (step < tall)
            continue;
        if (stairs && i - at < shortest_gap_windows)
            shortest_gap_windows = i - at;
        stairs++;
        at = i;
        in_stairs += step;
        tallest = fmax(tallest, step);
        if (stairs == 1)
            first_x = x[i + 1];
        else
            after_first += step;
        last_x = x[i + 1];
    }
    if (stairs < TIDE_STAIRS_LEAST || in_stairs - down < TIDE_STAIR_SHARE * rise || down > 0.2 * in_stairs ||
        rise <= 0 || stairs > n / 2 || in_stairs > 1.4 * rise || tallest > TIDE_STAIR_TALLEST * in_stairs)
        return false;
    double period = (last_x - first_x) / (double)(stairs - 1);
    if (x[n - 1] - last_x > 2 * period || last_x - first_x < 0.4 * span_of(j))
        return false;
    double window = span_of(j) / (double)n, rate = after_first / (last_x - first_x);
    double unsure = rate * (window / (last_x - first_x)) + 2 * sqrt(2) * usual / (last_x - first_x);
    double size = after_first / (double)(stairs - 1), spread = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        double step = y[i + 1] - y[i];
        if (step >= tall)
            spread += (step - size) * (step - size);
    }
    unsure += 1.96 * sqrt(spread / (double)stairs) * sqrt((double)stairs) / (last_x - first_x) * 0.5;
    struct tide_verdict *v = j->v;
    v->kind = TIDE_LEAK;
    v->shape = TIDE_SHAPE_STAIRCASE;
    v->slope = rate;
    v->slope_low = rate - unsure;
    v->slope_high = rate + unsure;
    v->stairs = stairs;
    v->stair_period = period;
    v->confidence = clamp(1 - pow(0.25, (double)stairs), 0.5, 0.999);
    return true;
}

/* ------------------------------------------------------------------------------------------------ one pass
 */

/*
 * With items known, one pass over the data ends at items / items per step, and the question is put directly:
 * does growth up to there and level afterwards explain the floor? Then five points can be enough, because the
 * knee need not be found.
 */
static bool decide_one_pass(struct judging *j)
{
    double knee = j->input->items / j->input->items_per_step;
    if (!isfinite(knee) || !j->input->x_is_steps || knee <= j->x[0] || knee >= j->x[j->n - 1])
        return false;
    size_t before = 0;
    while (before < j->n && j->x[before] < knee)
        before++;
    size_t after = j->n - before;
    if (before < 1 || after < 2 || j->n < 5)
        return false;
    fit_from(j, 0);
    double u = (knee - j->x[0]) / span_of(j);
    struct tide_fit fit, after_fit;
    tide_fit_model_at(TIDE_MODEL_PLATEAU, u, j->u, j->y, j->n, j->least_noise, 0, &fit);
    double rise = fit.beta[1] * u;
    double t = fit.beta[1] / fmax(fit.error[1], 1e-300);
    tide_fit_model_at(TIDE_MODEL_LINE, 0, j->u + before, j->y + before, after, j->least_noise, 0, &after_fit);
    bool level_after = fabs(after_fit.beta[1]) <= fmax(TIDE_PLATEAU_STILL * fit.beta[1], 0);
    double noise = fmax(fit.noise, j->least_noise);
    bool fits_better =
        fit.rss < 0.25 * j->fits[TIDE_MODEL_FLAT].rss && fit.rss < 0.5 * j->fits[TIDE_MODEL_LINE].rss;
    /* A floor that another knee explains far better did not stop because the pass ended. */
    const struct tide_fit *free_knee = &j->fits[TIDE_MODEL_PLATEAU];
    double low, high;
    knee_interval(j, TIDE_MODEL_PLATEAU, free_knee->k, &low, &high);
    double slack = fmax(0.1 * knee, 1.5 * span_of(j) / (double)j->n);
    bool same_knee =
        !isfinite(free_knee->bic) || (knee >= x_at(j, low) - slack && knee <= x_at(j, high) + slack);
    if (!(rise > TIDE_CHANGE_NOISES * noise || t > 12) || rise < TIDE_CHANGE_SHARE * j->level ||
        !level_after || !fits_better || !same_knee)
        return false;
    say_plateau(j, knee, before ? j->x[before - 1] : j->x[0], j->x[before], tide_fit_value(&fit, 1),
                fit.beta[1] / span_of(j));
    j->v->one_pass = true;
    j->v->confidence = clamp(1 - 2 * tide_normal_tail(sureness(t, (double)j->n - 2)), 0.5, 0.999);
    j->best = fit;
    return true;
}

/* ------------------------------------------------------------------------------------------------ early knee
 */

/*
 * A long run may have filled its cache within what looks like warm-up. Warm-up slows down from the start; a
 * cache that fills grows evenly and then stops: look at the first fifth alone, at its own resolution.
 */
static void look_for_early_knee(struct judging *j)
{
    double whole = j->x[j->n - 1] - j->x[0];
    struct tide_moments early = j->moments;
    double edge = early.x[0] + 0.2 * whole;
    size_t count = 0;
    while (count < early.count && early.x[count] <= edge)
        count++;
    early.count = count;
    struct tide_floor floor;
    if (count < 24 || tide_floor_make(&early, j->scratch, &floor, NULL))
        return;
    double *u = tide_arena_take(j->scratch, floor.count, sizeof *u),
           *y = tide_arena_take(j->scratch, floor.count, sizeof *y);
    if (!u || !y)
        return;
    size_t n = 0;
    double from = floor.x[0], span = floor.x[floor.count - 1] - from;
    for (size_t i = 0; i < floor.count; i++) {
        if (!floor.kept[i])
            continue;
        u[n] = (floor.x[i] - from) / span;
        y[n++] = floor.bytes[i];
    }
    if (n < 12 || !(span > 0))
        return;
    struct tide_fit knee, curve;
    tide_fit_model(TIDE_MODEL_PLATEAU, u, y, n, j->least_noise, 0, &knee);
    tide_fit_model(TIDE_MODEL_SATURATION, u, y, n, j->least_noise, 0, &curve);
    double rise = knee.beta[1] * knee.k;
    size_t rising = 0;
    while (rising < n && u[rising] < knee.k)
        rising++;
    if (rising < 6 || knee.bic > curve.bic - TIDE_BIC_MARGIN || rise < TIDE_CHANGE_SHARE * 4 * j->level ||
        rise < TIDE_CHANGE_NOISES * knee.noise || knee.k * span < 0.02 * whole || knee.k > 0.9)
        return;
    double width = span / (double)n;
    say_plateau(j, from + knee.k * span, from + knee.k * span - width, from + knee.k * span + width,
                tide_fit_value(&j->best, 1), knee.beta[1] / span);
}

/* ------------------------------------------------------------------------------------------------ the whole
 */

static void decide(struct judging *j)
{
    if (decide_one_pass(j))
        return;
    skip_warmup(j);
    const struct tide_fit *best = &j->best;
    if (points_of(j) < TIDE_FEWEST_WINDOWS)
        return say_undecided(j, j->fits[TIDE_MODEL_LINE].beta[1], j->fits[TIDE_MODEL_LINE].error[1]);
    bool falling =
        best->model != TIDE_MODEL_BEND && best->model != TIDE_MODEL_JUMP_LINE && best->beta[1] <= 0;
    if (best->model == TIDE_MODEL_FLAT || falling)
        decide_level(j);
    else if (best->model != TIDE_MODEL_JUMP && best->model != TIDE_MODEL_PLATEAU &&
             best->model != TIDE_MODEL_SATURATION && decide_staircase(j))
        return;
    else if (best->model == TIDE_MODEL_JUMP)
        decide_jump(j, best);
    else if (best->model == TIDE_MODEL_JUMP_LINE &&
             !is_leak(j, best->tail, best->tail_error, 1, freedom(j, best)))
        decide_jump(j, best);
    else if (best->model == TIDE_MODEL_PLATEAU || best->model == TIDE_MODEL_SATURATION)
        decide_plateau(j, best);
    else if (best->model == TIDE_MODEL_BEND)
        decide_bend(j, best);
    else
        decide_rising(j, best);
    if (j->v->kind == TIDE_FLAT)
        look_for_early_knee(j);
}

static void forecast(struct judging *j)
{
    struct tide_verdict *v = j->v;
    double room = j->input->limit_bytes - (v->floor_last + (v->spikes.count ? v->spikes.typical_bytes : 0));
    if (v->kind != TIDE_LEAK || !isfinite(room) || !(v->slope > 0))
        return;
    room = fmax(room, 0);
    v->limit_x = v->x_last + room / v->slope;
    v->limit_x_low = v->x_last + room / v->slope_high;
    v->limit_x_high = v->slope_low > 0 ? v->x_last + room / v->slope_low : INFINITY;
}

static void clear_verdict(struct tide_verdict *v)
{
    *v = (struct tide_verdict){.kind = TIDE_UNDECIDED,
                               .shape = TIDE_SHAPE_UNKNOWN,
                               .confidence = 0.5,
                               .growth_bytes = NAN,
                               .slope = NAN,
                               .slope_low = NAN,
                               .slope_high = NAN,
                               .knee_x = NAN,
                               .knee_low = NAN,
                               .knee_high = NAN,
                               .ceiling_bytes = NAN,
                               .bytes_per_item = NAN,
                               .jump_x = NAN,
                               .jump_bytes = NAN,
                               .stair_period = NAN,
                               .limit_x = NAN,
                               .limit_x_low = NAN,
                               .limit_x_high = NAN,
                               .steps_needed = NAN,
                               .needed_for = NAN,
                               .detectable = NAN,
                               .spikes = {.phase = -1}};
}

static int prepare(struct judging *j, struct tide_err *err)
{
    if (tide_moments_make(j->input, j->scratch, &j->moments, err) ||
        tide_floor_make(&j->moments, j->scratch, &j->floor, err))
        return -1;
    size_t room = j->floor.count;
    j->x = tide_arena_take(j->scratch, room, sizeof(double));
    j->y = tide_arena_take(j->scratch, room, sizeof(double));
    j->u = tide_arena_take(j->scratch, room, sizeof(double));
    double *work = tide_arena_take(j->scratch, room, sizeof(double));
    if (!j->x || !j->y || !j->u || !work)
        return tide_err_set(err, "not enough memory to judge %zu samples", j->input->count);
    for (size_t i = 0; i < room; i++) {
        if (!j->floor.kept[i])
            continue;
        j->x[j->n] = j->floor.x[i];
        j->y[j->n++] = j->floor.bytes[i];
    }
    memcpy(work, j->y, j->n * sizeof *work);
    j->level = fabs(tide_median(work, j->n));
    j->least_noise = fmax(1200, 1e-5 * j->level); /* a page, as noise of rounding */
    return 0;
}

static void fill_ends(struct judging *j)
{
    struct tide_verdict *v = j->v;
    v->x_first = j->moments.x[0];
    v->x_last = j->moments.x[j->moments.count - 1];
    v->peak = j->moments.high[0];
    for (size_t i = 0; i < j->moments.count; i++)
        v->peak = fmax(v->peak, j->moments.high[i]);
    v->start_x = j->x[j->start];
    bool fitted = points_of(j) >= 2 && span_of(j) > 0 && isfinite(j->best.rss);
    v->floor_first = fitted ? tide_fit_value(&j->best, 0) : j->y[j->start];
    v->floor_last = fitted ? tide_fit_value(&j->best, (v->x_last - v->start_x) / span_of(j)) : j->y[j->n - 1];
    if (v->shape == TIDE_SHAPE_STAIRCASE)
        v->floor_last = j->y[j->n - 1];
    v->growth_bytes = v->floor_last - v->floor_first;
}

int tide_judge(const struct tide_judge_input *input, struct tide_arena *scratch,
               struct tide_verdict *ret_verdict, struct tide_err *err)
{
    struct tide_arena_mark mark = tide_arena_mark(scratch);
    struct tide_verdict verdict;
    clear_verdict(&verdict);
    struct judging j = {.input = input, .scratch = scratch, .v = &verdict};
    int status = prepare(&j, err);
    if (status == 0) {
        if (j.n >= 3 && j.x[j.n - 1] > j.x[0])
            decide(&j);
        fill_ends(&j);
        tide_spikes_find(input, &j.moments, &j.floor, verdict.start_x, j.level, &verdict.spikes);
        if (verdict.kind == TIDE_FLAT && verdict.spikes.count)
            verdict.kind = TIDE_SPIKES;
        if (verdict.kind == TIDE_LEAK && isfinite(input->items_per_step))
            verdict.bytes_per_item = verdict.slope / input->items_per_step;
        forecast(&j);
        *ret_verdict = verdict;
    }
    tide_arena_rewind(scratch, mark);
    return status;
}

const char *tide_verdict_name(enum tide_verdict_kind kind)
{
    static const char *const names[TIDE_VERDICTS] = {"flat",    "spikes", "leak",
                                                     "plateau", "jump",   "undecided"};
    return names[kind];
}

const char *tide_shape_name(enum tide_shape shape)
{
    static const char *const names[TIDE_SHAPES] = {"level",      "linear", "staircase", "accelerating",
                                                   "saturating", "step",   "unknown"};
    return names[shape];
}
