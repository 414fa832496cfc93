/*
 * plateau.c - growth that has stopped: after a while, with one pass over the data, or early in a long run.
 */
#include "judge/judge_private.h"

#include <math.h>

/* Number of windows after the knee at k. */
static size_t points_behind(const struct tide_judging *j, double k)
{
    size_t behind = 0;
    for (size_t i = 0; i < j->points.n; i++)
        behind += j->points.x[i] > k;
    return behind;
}

/* True if the floor is level in the last third, or after a later knee at k if that has enough points. */
static bool has_stopped(const struct tide_judging *j, double k, double rate)
{
    bool late = k > TIDE_LATELY && points_behind(j, k) >= TIDE_BEHIND_KNEE;
    struct tide_fit still = tide_judging_line_from(j, late ? k : TIDE_LATELY);
    return still.tail <= fmax(TIDE_PLATEAU_STILL * rate, TIDE_STILL_Z * still.tail_error);
}

bool tide_judging_ends_low(const struct tide_judging *j, const struct tide_fit *fit)
{
    return fit->model == TIDE_MODEL_PLATEAU && points_behind(j, fit->k) < TIDE_BEHIND_KNEE &&
           !has_stopped(j, fit->k, fit->beta[1]);
}

/* True if after the knee at k the floor rises beyond doubt against the fit, by an amount that matters. About
 * a shape that does not fit, noise seems to have so long a memory that no slope is sure; so the differences
 * of neighbours are asked. */
static bool outgrows(const struct tide_judging *j, const struct tide_fit *fit, double k)
{
    const struct tide_points *p = &j->points;
    size_t first = p->n - points_behind(j, k), last = p->n - 1 - first;
    if (p->n - first < TIDE_FEWEST_WINDOWS)
        return false;
    double off[TIDE_WINDOWS_MOST], square = 0;
    for (size_t i = 0; i <= last; i++)
        off[i] = p->y[first + i] - tide_fit_value(fit, p->x[first + i]);
    double rise = off[last] - off[0], mean = rise / (double)last;
    for (size_t i = 0; i < last; i++)
        square += pow(off[i + 1] - off[i] - mean, 2);
    double error = sqrt(square / (double)(last - 1) / (double)last);
    return tide_judging_matters(j, rise) && mean > TIDE_DRIVEN_Z * error;
}

/* True if the floor ends far below where its rise is said to have stopped: it was given back. Takes the
 * highest of the last windows, so that a program that ends does not count. */
static bool came_down(const struct tide_judging *j, double rise, double ceiling)
{
    size_t n = j->points.n, tenth = n / 10 > 1 ? n / 10 : 1;
    double last = -INFINITY;
    for (size_t i = n - tenth; i < n; i++)
        last = fmax(last, j->points.y[i]);
    return last < ceiling - TIDE_LEAK_RETREAT * rise;
}

/* A curve may end above all that was seen: the floor rose more evenly, and stopped more suddenly. Lowers the
 * ceiling to the highest floor of the last third, and returns where the floor first came to that; 1: the
 * ceiling is not above it. */
static double stop_below(const struct tide_judging *j, double *ceiling)
{
    const struct tide_points *p = &j->points;
    size_t first = 0;
    double top = -INFINITY;
    for (size_t i = 0; i < p->n; i++)
        top = p->x[i] >= TIDE_LATELY ? fmax(top, p->y[i]) : top;
    if (!(*ceiling > top))
        return 1;
    *ceiling = top;
    while (p->y[first] < top)
        first++;
    return p->x[first];
}

void tide_judging_decide_plateau(struct tide_judging *j, const struct tide_fit *fit)
{
    double k = fit->model == TIDE_MODEL_SATURATION ? fmin(TIDE_SATURATED * fit->k, 1) : fit->k;
    double rise = tide_fit_value(fit, 1) - tide_fit_value(fit, 0);
    const struct tide_fit *bend = &j->fits[TIDE_MODEL_BEND];
    if (bend->bic < fit->bic && tide_judging_is_leak_after_bend(j, bend))
        return tide_judging_say_leak(j, TIDE_SHAPE_LINEAR, bend);
    /* A curve that is full only as the run ends was not seen to stop. */
    bool ends_first = fit->model == TIDE_MODEL_SATURATION && k > TIDE_TAIL_LATEST;
    if (!tide_judging_is_change(j, rise) || ends_first || !has_stopped(j, k, rise / fmax(k, 1e-3)) ||
        came_down(j, rise, tide_fit_value(fit, 1)) || outgrows(j, fit, k))
        return tide_judging_say_undecided(j, &j->fits[TIDE_MODEL_LINE]);
    double low, high, ceiling = tide_fit_value(fit, 1);
    tide_judging_knee_interval(j, fit->model, fit->k, &low, &high);
    if (fit->model == TIDE_MODEL_SATURATION) {
        low *= TIDE_SATURATED;
        high *= TIDE_SATURATED;
        k = fmin(k, stop_below(j, &ceiling));
    }
    tide_judging_say_plateau(j, tide_judging_x(j, k), tide_judging_x(j, low),
                             tide_judging_x(j, fmin(high, 1)), ceiling, fit->beta[1] / tide_judging_span(j));
}

/* True if the first points follow the even rise of the fit. One or two steps up do not. */
static bool is_even(const struct tide_judging *j, const struct tide_fit *fit, size_t points, double rise)
{
    double square = 0;
    for (size_t i = 0; i < points; i++) {
        double off = j->y[i] - tide_fit_value(fit, j->points.x[i]);
        square += off * off;
    }
    return sqrt(square / (double)points) <= TIDE_PASS_UNEVEN * rise;
}

/*
 * If items are known, one pass over the data ends at items / items per step. Do growth up to there and a
 * level afterwards explain the floor? Five points can be enough, because the knee need not be found.
 */
bool tide_judging_decide_one_pass(struct tide_judging *j)
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
    tide_judging_fit_from(j, 0);
    double u = (knee - j->x[0]) / tide_judging_span(j);
    struct tide_points all = j->points, late = {j->u + before, j->y + before, after, all.least_noise, 0};
    all.correlation = 0;
    struct tide_fit fit = tide_fit_model_at(TIDE_MODEL_PLATEAU, u, &all);
    double rise = fit.beta[1] * u;
    double t = fit.beta[1] / fmax(fit.error[1], 1e-300);
    bool level_after = fabs(tide_fit_model_at(TIDE_MODEL_LINE, 0, &late).beta[1]) <=
                       fmax(TIDE_PLATEAU_STILL * fit.beta[1], 0);
    double noise = fmax(fit.noise, all.least_noise);
    bool fits_better = fit.rss < TIDE_PASS_FLAT * j->fits[TIDE_MODEL_FLAT].rss &&
                       fit.rss < TIDE_PASS_LINE * j->fits[TIDE_MODEL_LINE].rss;
    /* A floor that another knee explains far better did not stop because the pass ended. */
    const struct tide_fit *free_knee = &j->fits[TIDE_MODEL_PLATEAU];
    double low, high;
    tide_judging_knee_interval(j, TIDE_MODEL_PLATEAU, free_knee->k, &low, &high);
    double slack = fmax(TIDE_PASS_NEAR * knee, 1.5 * tide_judging_span(j) / (double)j->n);
    bool same_knee = !isfinite(free_knee->bic) ||
                     (knee >= tide_judging_x(j, low) - slack && knee <= tide_judging_x(j, high) + slack);
    if (!(rise > TIDE_CHANGE_NOISES * noise || t > TIDE_PASS_T) || rise < TIDE_CHANGE_SHARE * j->level ||
        !level_after || !fits_better || !same_knee || !is_even(j, &fit, before, rise))
        return false;
    tide_judging_say_plateau(j, knee, j->x[before - 1], j->x[before], tide_fit_value(&fit, 1),
                             fit.beta[1] / tide_judging_span(j));
    j->v->one_pass = true;
    j->v->confidence =
        tide_judging_confidence(1 - 2 * tide_normal_tail(tide_judging_sureness(t, (double)j->n - 2)));
    j->best = fit;
    return true;
}

/*
 * A long run may have filled its cache within what looks like warm-up. Warm-up slows down from the start; a
 * cache that fills grows evenly and then stops. So the first fifth is looked at alone, at its own resolution.
 */
void tide_judging_look_for_early_knee(struct tide_judging *j)
{
    double whole = j->x[j->n - 1] - j->x[0];
    struct tide_moments early = j->moments;
    double edge = early.x[0] + TIDE_EARLY_SHARE * whole;
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
    const struct tide_points points = {u, y, n, j->points.least_noise, 0};
    struct tide_fit knee = tide_fit_model(TIDE_MODEL_PLATEAU, &points),
                    curve = tide_fit_model(TIDE_MODEL_SATURATION, &points),
                    jump = tide_fit_model(TIDE_MODEL_JUMP, &points);
    double rise = knee.beta[1] * knee.k;
    size_t rising = 0;
    while (rising < n && u[rising] < knee.k)
        rising++;
    if (rising < TIDE_EARLY_WINDOWS || knee.bic > fmin(curve.bic, jump.bic) - TIDE_BIC_MARGIN ||
        rise < TIDE_EARLY_RISE * j->level || rise < TIDE_CHANGE_NOISES * knee.noise ||
        knee.k * span < TIDE_EARLY_LEAST * whole || knee.k > TIDE_TAIL_LATEST ||
        came_down(j, rise, tide_fit_value(&knee, 1)))
        return;
    double width = span / (double)n;
    tide_judging_say_plateau(j, from + knee.k * span, from + knee.k * span - width,
                             from + knee.k * span + width, tide_fit_value(&j->best, 1), knee.beta[1] / span);
}

/* Returns how long, in scaled x, the floor stayed within a band at most, over points [from, end). */
static double longest_still(const struct tide_judging *j, const double *y, size_t from, size_t end,
                            double band)
{
    double longest = 0;
    for (size_t i = from; i < end; i++) {
        while (fabs(y[i] - y[from]) > band)
            from++;
        longest = fmax(longest, j->points.x[i] - j->points.x[from]);
    }
    return longest;
}

/* The first point since which the floor has stayed within a band of its last. */
static size_t still_since(const double *y, size_t n, double band)
{
    size_t last = n - 1, first = last;
    while (first > 0 && fabs(y[first - 1] - y[last]) <= band)
        first--;
    return first;
}

bool tide_judging_stands_still(const struct tide_judging *j)
{
    double y[TIDE_WINDOWS_MOST] = {0}; /* without the jump, where there is one */
    size_t n = j->points.n, began = 0;
    for (size_t i = 0; i < n; i++)
        y[i] = tide_judging_unjumped(j, i);
    double rise = y[n - 1] - y[0], band = TIDE_STANDSTILL_WITHIN * rise;
    if (rise <= 0)
        return false;
    while (y[began] - y[0] <= band)
        began++;
    size_t first = still_since(y, n, band);
    double still = 1 - j->points.x[first];
    return n - first >= TIDE_BEHIND_KNEE && still >= 1 - TIDE_TAIL_LATEST &&
           still >= TIDE_STANDSTILL_TIMES * longest_still(j, y, began, first, band);
}

/*
 * Programs that load one thing after the other grow in stages that no shape describes, so the noise about any
 * shape is large. Growth has still stopped if the floor stands still at the end for long, and for much longer
 * than between two stages.
 */
void tide_judging_look_for_standstill(struct tide_judging *j)
{
    size_t n = j->points.n;
    const double *y = j->points.y;
    double rise = y[n - 1] - y[0], band = TIDE_STANDSTILL_WITHIN * rise;
    if (n < TIDE_FEWEST_WINDOWS || !tide_judging_matters(j, rise) || tide_judging_retreat(y, n) > rise)
        return;
    size_t first = still_since(y, n, band);
    double still = 1 - j->points.x[first];
    struct tide_fit s = tide_judging_line_from(j, j->points.x[first]);
    if (still < TIDE_STANDSTILL_SHARE ||
        still < TIDE_STANDSTILL_TIMES * longest_still(j, y, 0, first, band) || n - first < TIDE_BEHIND_KNEE ||
        (tide_judging_matters(j, s.tail * still) && s.tail > TIDE_STILL_Z * s.tail_error))
        return;
    double knee = j->x[j->start + first], before = first > 0 ? j->x[j->start + first - 1] : knee;
    j->v->steps_needed = j->v->needed_for = j->v->detectable = NAN;
    tide_judging_say_plateau(j, knee, before, knee, y[n - 1], rise / (knee - j->x[j->start]));
}
