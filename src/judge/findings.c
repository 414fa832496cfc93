/*
 * findings.c - fits the floor, leaves out warm-up, and fills in the verdict that a decision asks for.
 */
#include "judge/judge_private.h"

#include <math.h>

double tide_judging_span(const struct tide_judging *j)
{
    return j->x[j->n - 1] - j->x[j->start];
}

double tide_judging_x(const struct tide_judging *j, double u)
{
    return j->x[j->start] + u * tide_judging_span(j);
}

double tide_judging_sureness(double t, double df)
{
    double z = (8 * df + 1) / (8 * df + 3) * sqrt(df * log1p(t * t / df));
    return t < 0 ? -z : z;
}

double tide_judging_sure_tail(const struct tide_fit *fit)
{
    return tide_judging_sureness(fit->tail / fmax(fit->tail_error, 1e-300), fit->freedom);
}

static void fit_all(struct tide_judging *j, double correlation)
{
    j->points.correlation = correlation;
    for (int m = 0; m < TIDE_MODELS; m++)
        j->fits[m] = tide_fit_model((enum tide_model)m, &j->points);
}

/* Returns the simplest model whose criterion is within the margin of the best. */
static struct tide_fit simplest_good(const struct tide_judging *j)
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

/*
 * Fits all models to the floor from `start` on. The autocorrelation is that of the residuals of the best
 * model of a first round. If it makes a simpler model the best, whose residuals are less correlated, theirs
 * is used, as long as that model then stays the best. Otherwise a few looks that came late turn a plain line
 * into a line with a jump and noise of a long memory.
 */
void tide_judging_fit_from(struct tide_judging *j, size_t start)
{
    j->start = start;
    j->points.y = j->y + start;
    j->points.n = j->n - start;
    double span = tide_judging_span(j);
    for (size_t i = start; i < j->n; i++)
        j->u[i - start] = span > 0 ? (j->x[i] - j->x[start]) / span : 0;
    fit_all(j, 0);
    struct tide_fit best = simplest_good(j);
    double correlation = tide_fit_correlation(&best, &j->points);
    fit_all(j, correlation);
    best = simplest_good(j);
    double shorter = tide_fit_correlation(&best, &j->points);
    if (shorter < correlation) {
        fit_all(j, shorter);
        if (simplest_good(j).model != best.model)
            fit_all(j, correlation);
    }
    j->best = simplest_good(j);
}

size_t tide_judging_behind_warmup(const struct tide_judging *j)
{
    double edge = j->x[0] + TIDE_WARMUP_SHARE * (j->x[j->n - 1] - j->x[0]);
    size_t first = 0;
    while (first < j->n && j->x[first] < edge)
        first++;
    return first;
}

/* Leaves out the part of the beginning that the fit of the rest does not explain. */
void tide_judging_skip_warmup(struct tide_judging *j)
{
    size_t first = tide_judging_behind_warmup(j);
    if (first == 0 || j->n - first < TIDE_FEWEST_WINDOWS)
        return tide_judging_fit_from(j, 0);
    tide_judging_fit_from(j, first);
    double allowed = TIDE_WARMUP_NOISES * fmax(j->best.noise, j->floor.noise);
    size_t start = first;
    while (start > 0) {
        double u = (j->x[start - 1] - j->x[first]) / tide_judging_span(j);
        if (fabs(j->y[start - 1] - tide_fit_value(&j->best, u)) > allowed)
            break;
        start--;
    }
    if (start != first)
        tide_judging_fit_from(j, start);
}

/* --- verdicts ------------------------------------------------------------------------------------------ */

double tide_judging_unjumped(const struct tide_judging *j, size_t i)
{
    bool jumped = j->best.model == TIDE_MODEL_JUMP_LINE && j->points.x[i] >= j->best.k;
    return j->points.y[i] - (jumped ? j->best.beta[2] : 0);
}

struct tide_fit tide_judging_line_from(const struct tide_judging *j, double from)
{
    struct tide_points late = j->points;
    for (; late.n > 4 && *late.x < from; late.n--) {
        late.x++;
        late.y++;
    }
    return tide_fit_model_at(TIDE_MODEL_LINE, 0, &late);
}

/*
 * Sets the slope at the end and its interval. The place of a bend is not known exactly, so the line is fitted
 * again to what is surely after it. An accelerating leak gets the rate of its last third.
 */
static void set_slope(struct tide_judging *j, const struct tide_fit *fit)
{
    struct tide_fit s = *fit;
    double from = 0;
    if (fit->model == TIDE_MODEL_POWER)
        from = TIDE_LATELY;
    if (fit->model == TIDE_MODEL_ONSET || fit->model == TIDE_MODEL_BEND)
        from = fmin(fit->k + 1.5 / (double)j->points.n, TIDE_TAIL_LATEST);
    if (from > 0)
        s = tide_judging_line_from(j, from);
    double span = tide_judging_span(j),
           wide = TIDE_INTERVAL_WIDER * tide_t_quantile95(s.freedom) * s.tail_error;
    j->v->slope = s.tail / span;
    j->v->slope_x = tide_judging_x(j, from);
    j->v->slope_low = (s.tail - wide) / span;
    j->v->slope_high = (s.tail + wide) / span;
}

double tide_judging_confidence(double probability)
{
    return fmin(fmax(probability, 0.5), 0.999);
}

/* Confidence of a choice between models: the criterion's weight of all models that mean the same verdict. */
double tide_judging_weight(const struct tide_judging *j, const bool same[TIDE_MODELS])
{
    double least = INFINITY, all = 0, mine = 0;
    for (int m = 0; m < TIDE_MODELS; m++)
        least = fmin(least, j->fits[m].bic);
    for (int m = 0; m < TIDE_MODELS; m++) {
        double weight = exp(-(j->fits[m].bic - least) / 2);
        all += weight;
        mine += same[m] ? weight : 0;
    }
    return tide_judging_confidence(mine / all);
}

/* Returns the least rise of the floor that is called a leak. */
static double least_leak(const struct tide_judging *j)
{
    double filled = fmin(TIDE_LEAK_SHARE_SMALL * j->level, TIDE_LEAK_FILLED);
    return fmax(fmax(TIDE_LEAK_LEAST, TIDE_LEAK_SHARE * j->level), filled);
}

void tide_judging_say_undecided(struct tide_judging *j, const struct tide_fit *fit)
{
    struct tide_verdict *v = j->v;
    v->kind = TIDE_UNDECIDED;
    v->shape = TIDE_SHAPE_UNKNOWN;
    v->confidence = 0.5;
    double span = tide_judging_span(j), matter = fmax(fabs(fit->tail), TIDE_MATTERS_SHARE * j->level);
    /* The error of a slope falls with the length of the run to the power 3/2. */
    double longer = pow(fmax((TIDE_LEAK_Z + 1) * fit->tail_error / matter, 1), 2.0 / 3);
    double whole = j->x[j->n - 1] - j->x[0];
    double windows = (double)TIDE_SHORT_MOMENTS / (double)j->moments.count;
    v->steps_needed = fmax(whole, span) * (fmin(fmax(fmax(longer, windows), 1.5), 1000) - 1);
    v->needed_for = matter / span;
    v->detectable = (TIDE_LEAK_Z * fit->tail_error) / span;
}

void tide_judging_range(const struct tide_judging *j, double *ret_lowest, double *ret_highest)
{
    *ret_lowest = INFINITY;
    *ret_highest = -INFINITY;
    for (size_t i = j->start; i < j->n; i++) {
        *ret_lowest = fmin(*ret_lowest, j->y[i]);
        *ret_highest = fmax(*ret_highest, j->y[i]);
    }
}

void tide_judging_say_level(struct tide_judging *j)
{
    static const bool level[TIDE_MODELS] = {[TIDE_MODEL_FLAT] = true};
    j->v->kind = TIDE_FLAT;
    j->v->shape = TIDE_SHAPE_LEVEL;
    j->v->confidence = tide_judging_weight(j, level);
    const struct tide_fit *line = &j->fits[TIDE_MODEL_LINE];
    double surely = fmax(TIDE_LEAK_Z * line->error[1], least_leak(j));
    double lowest, highest;
    tide_judging_range(j, &lowest, &highest);
    double shown = surely + TIDE_SHOWN_RANGES * fmax(highest - lowest, j->points.least_noise);
    j->v->detectable = shown / tide_judging_span(j);
}

void tide_judging_say_leak(struct tide_judging *j, enum tide_shape shape, const struct tide_fit *fit)
{
    set_slope(j, fit);
    /* What is surely after a bend may be too little to tell a rate. */
    if (!(j->v->slope_low > 0) && shape != TIDE_SHAPE_ACCELERATING) {
        j->v->slope = j->v->slope_x = j->v->slope_low = j->v->slope_high = NAN;
        return tide_judging_say_undecided(j, fit);
    }
    j->v->kind = TIDE_LEAK;
    j->v->shape = shape;
    j->v->confidence = tide_judging_confidence(1 - 2 * tide_normal_tail(tide_judging_sure_tail(fit) - 2));
    bool was_level = fit->model == TIDE_MODEL_ONSET ||
                     (fit->model == TIDE_MODEL_BEND &&
                      fabs(fit->beta[1] * fit->k) <= TIDE_SINCE_SHARE * fit->tail * (1 - fit->k));
    if (was_level)
        j->v->since_x = tide_judging_x(j, fit->k);
}

void tide_judging_say_plateau(struct tide_judging *j, double knee, double low, double high, double ceiling,
                              double rate)
{
    static const bool bounded[TIDE_MODELS] = {
        [TIDE_MODEL_PLATEAU] = true, [TIDE_MODEL_SATURATION] = true, [TIDE_MODEL_BEND] = true};
    struct tide_verdict *v = j->v;
    v->kind = TIDE_PLATEAU;
    v->shape = TIDE_SHAPE_SATURATING;
    v->knee_x = knee;
    v->ceiling_bytes = ceiling;
    v->confidence = tide_judging_weight(j, bounded);
    if (!j->input->x_is_steps || !isfinite(j->input->items_per_step))
        return;
    v->bytes_per_item = rate / j->input->items_per_step;
    double pass = j->input->items / j->input->items_per_step, slack = TIDE_PASS_SLACK * pass;
    v->one_pass = pass >= low - slack && pass <= high + slack;
}

/* Returns the mean of the differences of neighbours, in its standard errors. It tells a floor that rises from
 * a random walk, which moves without a cause. Where the noise has a short memory, it asks for too much. */
static double drive(const struct tide_judging *j)
{
    size_t n = j->points.n - 1;
    double mean = (tide_judging_unjumped(j, n) - tide_judging_unjumped(j, 0)) / (double)n, square = 0;
    for (size_t i = 0; i < n; i++) {
        double off = tide_judging_unjumped(j, i + 1) - tide_judging_unjumped(j, i) - mean;
        square += off * off;
    }
    double error = sqrt(square / (double)(n > 1 ? n - 1 : 1) / (double)n);
    return mean / fmax(error, 1e-300);
}

/* True if the floor is nearer to a line than a random walk comes, however long the memory of its noise. */
static bool is_straight(const struct tide_judging *j)
{
    return j->points.n >= TIDE_WINDOWS_LEAST &&
           j->fits[TIDE_MODEL_LINE].rss <= TIDE_STRAIGHT * j->fits[TIDE_MODEL_FLAT].rss;
}

/* A floor whose noise has a long memory may be a random walk, so it must also rise by drive(). If it does so
 * beyond doubt, the slope may be less sure: such noise leaves it few degrees of freedom. */
bool tide_judging_is_sure(const struct tide_judging *j, const struct tide_fit *fit)
{
    double sureness = tide_judging_sure_tail(fit);
    if (is_straight(j))
        return sureness >= TIDE_WANDER_Z;
    const struct tide_fit *line =
        j->best.model == TIDE_MODEL_JUMP_LINE ? &j->best : &j->fits[TIDE_MODEL_LINE];
    if (tide_fit_correlation(line, &j->points) < TIDE_WANDER)
        return sureness >= TIDE_LEAK_Z;
    double driven = drive(j);
    return sureness >= TIDE_LEAK_Z ? driven >= TIDE_WANDER_Z
                                   : sureness >= TIDE_WANDER_Z && driven >= TIDE_DRIVEN_Z;
}

bool tide_judging_matters(const struct tide_judging *j, double bytes)
{
    return bytes >= least_leak(j);
}

double tide_judging_retreat(const double *bytes, size_t count)
{
    double highest = -INFINITY, most = 0;
    for (size_t i = 0; i < count; i++) {
        highest = fmax(highest, bytes[i]);
        most = fmax(most, highest - bytes[i]);
    }
    return most;
}

/* How far the floor came down at most. What it fell from may have been left out as a bump; a line with a jump
 * tells. */
static double most_retreat(const struct tide_judging *j)
{
    double seen = tide_judging_retreat(j->points.y, j->points.n);
    return j->best.model == TIDE_MODEL_JUMP_LINE ? fmax(seen, -j->best.beta[2]) : seen;
}

bool tide_judging_is_leak(const struct tide_judging *j, const struct tide_fit *fit, double share)
{
    return tide_judging_matters(j, fit->tail * share) && tide_judging_is_sure(j, fit) &&
           most_retreat(j) <= TIDE_LEAK_RETREAT * fit->tail * share;
}

bool tide_judging_is_change(const struct tide_judging *j, double bytes)
{
    double stands_out = TIDE_CHANGE_NOISES * fmax(j->best.noise, j->floor.noise);
    return bytes >= fmax(stands_out, fmax(TIDE_CHANGE_SHARE * j->level, TIDE_CHANGE_LEAST));
}

/* The knee's interval: where the criterion is within 4 of its least (about two standard errors). */
void tide_judging_knee_interval(const struct tide_judging *j, enum tide_model model, double k,
                                double *ret_low, double *ret_high)
{
    double least = tide_fit_model_at(model, k, &j->points).bic, low = k, high = k;
    for (int i = 1; i < 200; i++) {
        double at = i / 200.0;
        if (tide_fit_model_at(model, at, &j->points).bic > least + TIDE_KNEE_BIC)
            continue;
        low = fmin(low, at);
        high = fmax(high, at);
    }
    *ret_low = low;
    *ret_high = high;
}

bool tide_judging_is_leak_after_bend(const struct tide_judging *j, const struct tide_fit *bend)
{
    if (!tide_judging_is_leak(j, bend, 1 - bend->k))
        return false;
    if (bend->beta[1] <= 0 || bend->tail > TIDE_PLATEAU_STILL * bend->beta[1])
        return true;
    struct tide_fit s = tide_judging_line_from(j, fmax(TIDE_LATELY, bend->k));
    return s.tail >= TIDE_STILL_SAME * bend->tail && tide_judging_sure_tail(&s) >= TIDE_LEAK_Z;
}
