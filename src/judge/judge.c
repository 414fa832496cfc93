/*
 * judge.c - decides. From samples to a verdict:
 *
 *   samples -> moments (one per x) -> floor (one per window, spikes left out) -> warm-up left out
 *   -> nine shapes fitted -> the simplest shape that explains the floor
 *   -> tests that must hold before it is called by its name -> verdict
 *
 * A name is only given when its test holds. Otherwise the verdict is undecided, and says how much longer the
 * run would have to be.
 */
#include "judge/judge.h"
#include "judge/judge_private.h"

#include <math.h>
#include <string.h>

/* Returns the index of the first moment at x or later. */
static size_t moment_at(const struct tide_judging *j, double x)
{
    size_t i = 0;
    while (i < j->moments.count && j->moments.x[i] < x)
        i++;
    return i;
}

/* True if the floor was clearly flat in the first half although a line fits the whole run. What rose later is
 * a jump or the start of a leak; a run too short to tell which is not called a leak. */
static bool stood_still_first(const struct tide_judging *j, const struct tide_fit *line)
{
    struct tide_points half = j->points;
    for (half.n = 0; half.n < j->points.n && half.x[half.n] <= 0.5;)
        half.n++;
    struct tide_fit first = tide_fit_model_at(TIDE_MODEL_LINE, 0, &half);
    return half.n >= TIDE_FEWEST_WINDOWS && isfinite(first.rss) &&
           first.beta[1] < TIDE_LEAK_STILL * line->tail &&
           line->tail - first.beta[1] > TIDE_STILL_Z * first.error[1];
}

/* True if the floor reached `high` and came down to `low` after that. */
static bool came_back(const double *y, size_t n, double low, double high)
{
    bool up = false, back = false;
    for (size_t i = 0; i < n; i++) {
        up = up || y[i] >= high;
        back = back || (up && y[i] <= low);
    }
    return back;
}

/* True if the floor, without what may be warm-up, ends far above where it began: then it is not level,
 * whatever the best shape is. A floor that was that high before and came back to its beginning has not risen:
 * the run was first seen at a low. */
static bool has_risen(const struct tide_judging *j)
{
    size_t from = tide_judging_behind_warmup(j);
    from = from + TIDE_FEWEST_WINDOWS > j->n ? j->n - TIDE_FEWEST_WINDOWS : from;
    from = from < j->start ? j->start : from;
    size_t n = j->n - from, tenth = n / 10 > 2 ? n / 10 : 2;
    const double *y = j->y + from;
    double first = INFINITY,
           last = INFINITY; /* lowest of each end, so that a bump left in the floor does not count */
    for (size_t i = 0; i < tenth; i++) {
        first = fmin(first, y[i]);
        last = fmin(last, y[n - 1 - i]);
    }
    return last - first > fmax(TIDE_LEVEL_RISE * j->level, TIDE_LEAK_LEAST) && !came_back(y, n, first, last);
}

/* True if the run is so short that a leak in it is still small. */
static bool is_brief(const struct tide_judging *j)
{
    return j->moments.count < TIDE_SHORT_MOMENTS;
}

/* Returns the most that the floor may rise by on a line: the upper end of its interval. */
static double most_of_line(const struct tide_judging *j)
{
    const struct tide_fit *line = &j->fits[TIDE_MODEL_LINE];
    return line->beta[1] + tide_t_quantile95(line->freedom) * line->error[1];
}

/* True if the floor dropped by more than a line through it rises, and that rise is small. If it is next to
 * nothing, a drop by most of it is enough. */
static bool wanders(const struct tide_judging *j)
{
    double slope = j->fits[TIDE_MODEL_LINE].beta[1], most = most_of_line(j),
           retreat = tide_judging_retreat(j->points.y, j->points.n);
    return (retreat > slope && most <= TIDE_LEVEL_RISE * j->level) ||
           (retreat > TIDE_FLAT_RETREAT * slope && most <= TIDE_FLAT_SHARE * j->level);
}

/* True if a line that is not a leak is next to nothing: its slope is not sure, or the floor wanders. */
static bool is_at_most_small(const struct tide_judging *j)
{
    bool small =
        !tide_judging_is_sure(j, &j->fits[TIDE_MODEL_LINE]) && most_of_line(j) <= TIDE_FLAT_SHARE * j->level;
    return (small || wanders(j)) && !is_brief(j) && !has_risen(j);
}

static void decide_level(struct tide_judging *j)
{
    const struct tide_fit *line = &j->fits[TIDE_MODEL_LINE];
    bool brief = is_brief(j), few = j->moments.count < TIDE_WINDOWS_LEAST;
    bool small = most_of_line(j) <= (brief ? fmax(TIDE_FLAT_SHARE_BRIEF * j->level, TIDE_FLAT_LEAST_BRIEF)
                                           : fmax(TIDE_FLAT_SHARE * j->level, TIDE_LEAK_LEAST));
    if (brief ? few || !small
              : (tide_judging_sure_tail(line) > TIDE_FLAT_Z && !small && !wanders(j)) || has_risen(j))
        return tide_judging_say_undecided(j, line);
    tide_judging_say_level(j);
}

/* Returns the value that this share of the moments [from, to) stay under, by their lowest; NAN if out of
 * memory, or if there are none. */
static double share_under(const struct tide_judging *j, size_t from, size_t to, double share)
{
    size_t n = to > from ? to - from : 0;
    double *low = n ? tide_arena_take(j->scratch, n, sizeof *low) : NULL;
    if (!low)
        return NAN;
    memcpy(low, j->moments.low + from, n * sizeof *low);
    return tide_kth(low, n, (size_t)(share * (double)(n - 1)));
}

/* True if what memory usually is does not rise with the floor: only its dips have become rarer, or were seen
 * more rarely. What leaks lifts both. A line lifts the median of the later half by half of its rise; an onset
 * that of what follows it likewise. */
static bool only_dips_rise(const struct tide_judging *j, const struct tide_fit *fit)
{
    double middle_x = tide_judging_x(j, fit->model == TIDE_MODEL_ONSET ? fit->k : 0.5);
    size_t from = moment_at(j, j->x[j->start]), middle = moment_at(j, middle_x);
    double usual = share_under(j, middle, j->moments.count, 0.5) - share_under(j, from, middle, 0.5);
    double rise = tide_fit_value(fit, 1) - tide_fit_value(fit, 0);
    return usual < TIDE_USUAL_RISE * rise && !tide_judging_matters(j, 2 * usual) && !is_brief(j) &&
           !has_risen(j);
}

static void decide_rising(struct tide_judging *j, const struct tide_fit *fit)
{
    double share = fit->model == TIDE_MODEL_ONSET ? 1 - fit->k : 1;
    struct tide_fit still = tide_judging_line_from(j, TIDE_LATELY);
    if (!tide_judging_matters(j, tide_fit_value(fit, 1) - tide_fit_value(fit, 0)) && !is_brief(j))
        return decide_level(j);
    if (!tide_judging_is_leak(j, fit, share)) {
        bool level = (fit->model == TIDE_MODEL_LINE && is_at_most_small(j)) || only_dips_rise(j, fit);
        return level ? tide_judging_say_level(j) : tide_judging_say_undecided(j, fit);
    }
    if (fit->model != TIDE_MODEL_ONSET && fit->model != TIDE_MODEL_POWER &&
        still.tail < TIDE_LEAK_STILL * fit->tail && still.tail < TIDE_STILL_Z * still.tail_error)
        return tide_judging_say_undecided(j, &still);
    if (fit->model == TIDE_MODEL_POWER && fit->k > TIDE_POWER_MOST)
        return tide_judging_say_undecided(j, &still);
    if ((fit->model == TIDE_MODEL_LINE && stood_still_first(j, fit)) || tide_judging_stands_still(j))
        return tide_judging_say_undecided(j, fit);
    enum tide_shape shape = fit->model == TIDE_MODEL_POWER ? TIDE_SHAPE_ACCELERATING : TIDE_SHAPE_LINEAR;
    tide_judging_say_leak(j, shape, fit);
}

static void decide_bend(struct tide_judging *j, const struct tide_fit *fit)
{
    double before = fit->beta[1];
    bool late = fit->k > TIDE_TAIL_LATEST, slight = fabs(fit->tail - before) < TIDE_BEND_LEAST * before;
    if (before > 0 && (late || slight)) /* such a bend is noise of the line */
        return decide_rising(j, &j->fits[TIDE_MODEL_LINE]);
    if (tide_judging_is_leak_after_bend(j, fit))
        return tide_judging_say_leak(j, TIDE_SHAPE_LINEAR, fit);
    double rise = tide_fit_value(fit, 1) - tide_fit_value(fit, 0);
    bool rose = before > 0 && tide_judging_is_change(j, before * fit->k);
    if (fit->tail <= 0 && rise <= 0 && (!rose || wanders(j)))
        return tide_judging_say_level(j);
    bool goes_on =
        fit->tail > TIDE_LEAK_Z * fit->tail_error && tide_judging_matters(j, fit->tail * (1 - fit->k));
    if (rose && fit->tail <= TIDE_PLATEAU_STILL * before && !goes_on)
        return tide_judging_decide_plateau(j, &j->fits[TIDE_MODEL_PLATEAU]);
    /* The whole rise does not matter; or the rise up to the bend does not, nor the slower one after it. */
    bool small = fit->tail <= before && !tide_judging_is_change(j, before * fit->k) &&
                 !tide_judging_matters(j, fit->tail * (1 - fit->k));
    if (fit->tail > 0 && before >= 0 && (small || !tide_judging_matters(j, rise)) && !is_brief(j))
        return decide_level(j);
    tide_judging_say_undecided(j, fit);
}

/* A jump may be taken back once or twice before it stays. Returns the earliest moment from `from` on since
 * which most moments were that high, if hardly any were before it; otherwise m, because such heights are
 * usual. */
static size_t first_mostly_up(const struct tide_moments *moments, size_t from, size_t m, double half)
{
    size_t first = m, up = 0, down = 0, up_before = 0;
    for (size_t i = m; i-- > from;) {
        bool is_up = moments->high[i] >= half;
        up += is_up;
        down += !is_up;
        if (is_up && up > down)
            first = i;
    }
    for (size_t i = from; i < first; i++)
        up_before += moments->high[i] >= half;
    bool habit =
        first < from + TIDE_JUMP_BEFORE || (double)up_before > TIDE_JUMP_HABIT * (double)(first - from);
    return habit ? m : first;
}

static double height_of_jump(const struct tide_fit *fit)
{
    return fit->model == TIDE_MODEL_JUMP ? fit->beta[1] : fit->beta[2];
}

static bool is_jump(const struct tide_judging *j, double height)
{
    return tide_judging_is_change(j, height) && height >= TIDE_JUMP_SHARE * j->level;
}

static size_t first_after_jump(const struct tide_judging *j, const struct tide_fit *fit)
{
    size_t i = j->start;
    while (i + 1 < j->n && (j->x[i] - j->x[j->start]) / tide_judging_span(j) < fit->k)
        i++;
    return i;
}

static void say_where_it_jumped(struct tide_judging *j, const struct tide_fit *fit)
{
    double height = height_of_jump(fit);
    j->v->jump_bytes = height;
    size_t i = first_after_jump(j, fit);
    /* Walk back from there to the last moment that was still below: the step came right after it. */
    double half = j->y[i] - height / 2;
    size_t m = j->moments.count - 1;
    while (m > 0 && j->moments.x[m] > j->x[i])
        m--;
    while (m > 0 && j->moments.low[m - 1] >= half)
        m--;
    /* What was before a drop does not count. */
    size_t from = isfinite(j->v->drop_x) ? moment_at(j, j->x[j->start]) : 0;
    m = first_mostly_up(&j->moments, from, m, half);
    j->v->jump_x = j->moments.x[m];
    j->v->jump_after = j->moments.x[m > 0 ? m - 1 : 0];
}

/* Names the jump of a line with a jump, whatever the verdict is. */
static void say_jump_beside(struct tide_judging *j)
{
    if (j->best.model == TIDE_MODEL_JUMP_LINE && is_jump(j, height_of_jump(&j->best)))
        say_where_it_jumped(j, &j->best);
}

static void decide_by_shape(struct tide_judging *j);

/* True if a leak after a jump is as good as nothing beside it so far: it is small, and its rate is hardly
 * known or was seen for a short while only. */
static bool is_dwarfed(const struct tide_judging *j, double growth, double height, double jump_x)
{
    size_t after = 0;
    while (after < j->moments.count && j->moments.x[j->moments.count - 1 - after] >= jump_x)
        after++;
    bool vague = (j->v->slope_high - j->v->slope_low) / 2 > TIDE_JUMP_VAGUE * j->v->slope;
    return growth <= TIDE_JUMP_BESIDE * height && (vague || after < TIDE_SHORT_MOMENTS);
}

/* Judges what follows a jump by itself: a part of the program that begins with it may leak. False if the jump
 * is the answer; then nothing is changed but the most that may have risen after it. */
static bool decide_after_jump(struct tide_judging *j, const struct tide_fit *fit)
{
    struct tide_verdict before = *j->v;
    size_t start = j->start, first = first_after_jump(j, fit);
    if (j->n - first < TIDE_FEWEST_WINDOWS)
        return false;
    say_where_it_jumped(j, fit);
    double jump_x = j->v->jump_x, height = j->v->jump_bytes; /* fit is another one soon */
    *j->v = before;
    tide_judging_fit_from(j, first);
    decide_by_shape(j);
    if (j->v->kind == TIDE_LEAK && !is_dwarfed(j, j->y[j->n - 1] - j->y[first], height, jump_x)) {
        j->v->since_x = isnan(j->v->since_x) ? jump_x : j->v->since_x;
        return true;
    }
    before.slope_high = j->v->kind == TIDE_LEAK ? j->v->slope_high : before.slope_high;
    *j->v = before;
    tide_judging_fit_from(j, start);
    return false;
}

/* True if the few windows after a jump, too few to judge, rise one by one. */
static bool climbs_after_jump(const struct tide_judging *j, const struct tide_fit *fit)
{
    size_t first = first_after_jump(j, fit), n = j->n - first;
    return n > 2 && n < TIDE_FEWEST_WINDOWS && tide_judging_matters(j, j->y[j->n - 1] - j->y[first]) &&
           !(tide_judging_retreat(&j->y[first], n) > 0);
}

/* Returns what the floor rose by beside a jump: by the line, but no more than it was seen to rise before and
 * after. The window before may be on the way up, and bends the line. */
static double rise_beside_jump(const struct tide_judging *j, const struct tide_fit *fit)
{
    size_t first = first_after_jump(j, fit), start = j->start;
    double before = first < start + 2 ? 0 : fmin(j->y[first - 1], j->y[first - 2]) - j->y[start];
    double after = fmax(j->y[j->n - 1], j->y[j->n - 2]) - j->y[first];
    return fmin(fit->tail, fmax(before, 0) + fmax(after, 0));
}

static void decide_jump(struct tide_judging *j, const struct tide_fit *fit)
{
    static const bool jumps[TIDE_MODELS] = {[TIDE_MODEL_JUMP] = true, [TIDE_MODEL_JUMP_LINE] = true};
    double height = height_of_jump(fit);
    if (height <= 0 && tide_fit_value(fit, 1) <= tide_fit_value(fit, 0))
        return tide_judging_say_level(j);
    if (!is_jump(j, height))
        return decide_level(j);
    if (decide_after_jump(j, fit))
        return;
    if (climbs_after_jump(j, fit))
        return tide_judging_say_undecided(j, &j->fits[TIDE_MODEL_LINE]);
    bool rises =
        fit->model == TIDE_MODEL_JUMP_LINE && tide_judging_matters(j, fit->tail) &&
        fit->tail > TIDE_FLAT_Z * fit->tail_error; /* beside the jump not level, and not surely a leak */
    if (rises && rise_beside_jump(j, fit) > TIDE_JUMP_BESIDE * height)
        return tide_judging_say_undecided(j, fit);
    double wide = TIDE_INTERVAL_WIDER * tide_t_quantile95(fit->freedom) * fit->tail_error;
    if (rises)
        j->v->slope_high = (fit->tail + wide) / tide_judging_span(j);
    j->v->kind = TIDE_JUMP;
    j->v->shape = TIDE_SHAPE_STEP;
    j->v->confidence = tide_judging_weight(j, jumps);
    say_where_it_jumped(j, fit);
}

/* Returns where growth slowed down; NAN if it did not. */
static double find_slowing(const struct tide_judging *j)
{
    const struct tide_fit *bend = &j->fits[TIDE_MODEL_BEND];
    bool slowed = bend->tail < bend->beta[1] && bend->bic < j->fits[TIDE_MODEL_LINE].bic - TIDE_BIC_MARGIN;
    return slowed ? tide_judging_x(j, bend->k) : NAN;
}

/* Stairs that were higher or closer at first do not tell the rate at the end. Judges what follows the place
 * where growth slowed down by itself: if it surely leaks more slowly, that is the rate. */
static void look_for_lower_stairs(struct tide_judging *j)
{
    struct tide_verdict whole = *j->v;
    size_t start = j->start, first = start;
    double slowed_x = find_slowing(j);
    while (first < j->n && !(j->x[first] >= slowed_x))
        first++;
    if (j->n - first < TIDE_WINDOWS_LEAST)
        return;
    tide_judging_fit_from(j, first);
    decide_by_shape(j);
    struct tide_verdict later = *j->v;
    *j->v = whole;
    tide_judging_fit_from(j, start);
    if (later.kind != TIDE_LEAK || !(later.slope_high < whole.slope_low))
        return;
    j->v->slope = later.slope;
    j->v->slope_low = later.slope_low;
    j->v->slope_high = later.slope_high;
    j->v->slope_x = later.slope_x;
}

/* Handles a rise that has stopped, or is next to nothing: pages that a process touches now and then. */
static void decide_stopping(struct tide_judging *j, const struct tide_fit *fit)
{
    if (!tide_judging_is_change(j, tide_fit_value(fit, 1) - tide_fit_value(fit, 0)))
        return decide_level(j);
    if (tide_judging_ends_low(j, fit))
        return decide_rising(j, &j->fits[TIDE_MODEL_LINE]);
    tide_judging_decide_plateau(j, fit);
}

/* Decides by the shape that fits best, from `start` on. */
static void decide_by_shape(struct tide_judging *j)
{
    const struct tide_fit *best = &j->best;
    bool falling =
        best->model != TIDE_MODEL_BEND && best->model != TIDE_MODEL_JUMP_LINE && best->beta[1] <= 0;
    if (best->model == TIDE_MODEL_FLAT || falling)
        decide_level(j);
    else if (best->model != TIDE_MODEL_JUMP && best->model != TIDE_MODEL_PLATEAU &&
             best->model != TIDE_MODEL_SATURATION && tide_judging_decide_staircase(j)) {
        look_for_lower_stairs(j);
        return;
    } else if (best->model == TIDE_MODEL_JUMP)
        decide_jump(j, best);
    else if (best->model == TIDE_MODEL_JUMP_LINE && !tide_judging_is_leak(j, best, 1))
        decide_jump(j, best);
    else if (best->model == TIDE_MODEL_PLATEAU || best->model == TIDE_MODEL_SATURATION)
        decide_stopping(j, best);
    else if (best->model == TIDE_MODEL_BEND)
        decide_bend(j, best);
    else
        decide_rising(j, best);
    if (j->v->kind == TIDE_UNDECIDED)
        tide_judging_look_for_standstill(j);
    if (j->v->kind == TIDE_UNDECIDED || j->v->kind == TIDE_LEAK)
        say_jump_beside(j);
}

/*
 * A drop: memory that is freed at once and stays free, such as a model that is no longer needed or a cache
 * that is dropped. What was before it says nothing about what follows.
 */
struct drop {
    size_t top, bottom; /* points: the last before it, the first after it */
    size_t before;      /* the first point after the drop before it; 0: this is the first */
    bool is_low;        /* to where the floor hardly was before */
};

/* True if the floor falls to where it hardly was before. A sawtooth falls back to where it often was. A
 * program is small as it starts, so the floor may have been that low for a part of the time. */
static bool leaves_all_before(const struct tide_judging *j, const struct drop *fall)
{
    double top = j->y[fall->top], bottom = j->y[fall->bottom], low = 0;
    for (size_t i = 0; i < fall->top; i++)
        if (j->y[i] < bottom + TIDE_DROP_BELOW * (top - bottom))
            low += j->x[i + 1] - j->x[i];
    return low <= TIDE_DROP_UNUSUAL * (j->x[fall->top] - j->x[0]);
}

/* Returns the least fall from a point that is a drop. */
static double least_drop(const struct tide_judging *j, double from_bytes)
{
    return fmax(fmax(TIDE_CHANGE_NOISES * j->floor.noise, TIDE_CHANGE_LEAST), TIDE_DROP_SHARE * from_bytes);
}

/* Finds the last drop of the floor to where it hardly was before; if there is none, the only large one. */
static bool find_drop(const struct tide_judging *j, struct drop *ret_drop)
{
    struct drop low = {0}, high = {0};
    double largest = 0, second = 0, rest = TIDE_DROP_REST * least_drop(j, j->level);
    for (size_t i = 0, next; i + 1 < j->n; i = next) {
        struct drop fall = {i, i, low.bottom, false};
        while (fall.bottom + 1 < j->n && fall.bottom < i + TIDE_DROP_RUN &&
               j->y[fall.bottom] - j->y[fall.bottom + 1] > rest)
            fall.bottom++;
        next = fall.bottom > i ? fall.bottom : i + 1;
        double bytes = j->y[fall.top] - j->y[fall.bottom];
        fall.is_low = bytes >= least_drop(j, j->y[fall.top]) && leaves_all_before(j, &fall);
        if (fall.is_low) {
            low = fall;
            continue;
        }
        high = bytes > largest ? fall : high;
        second = fmax(second, fmin(bytes, largest));
        largest = fmax(largest, bytes);
    }
    *ret_drop = low.is_low ? low : high;
    double fall = j->y[ret_drop->top] - j->y[ret_drop->bottom], other = low.is_low ? largest : second;
    return fall >= fmax(least_drop(j, j->y[ret_drop->top]), TIDE_DROP_ALONE * other) &&
           ret_drop->bottom > j->start;
}

/* True if the floor rises after the drop by what matters, and not at once: such a floor is not level. One
 * that dropped to where it began is a sawtooth's. */
static bool rises_since(const struct tide_judging *j, const struct drop *drop)
{
    double bottom = j->y[drop->bottom], fall = j->y[drop->top] - bottom, rise = j->y[j->n - 1] - bottom;
    double steepest = 0, lowest = INFINITY;
    for (size_t i = 0; i <= drop->top; i++)
        lowest = fmin(lowest, j->y[i]);
    for (size_t i = drop->bottom + 1; i < j->n; i++)
        steepest = fmax(steepest, j->y[i] - j->y[i - 1]);
    bool sawtooth = fabs(lowest - bottom) < TIDE_DROP_REST * fall;
    bool dip = steepest > rise / 2 && rise > fall / 2;
    return tide_judging_matters(j, rise) && !sawtooth && !dip;
}

/* Returns the index of the first moment after the drop. */
static size_t moment_of(const struct tide_judging *j, const struct drop *drop)
{
    double half = (j->y[drop->top] + j->y[drop->bottom]) / 2;
    size_t i = 0;
    while (j->moments.x[i] <= j->x[drop->top] ||
           (j->moments.x[i] < j->x[drop->bottom] && j->moments.low[i] >= half))
        i++;
    return i;
}

/* Fills drop_x, the first moment after the drop, and drop_bytes. The end of a ramp is left out of the floor,
 * but not of what was freed. */
static void say_drop(struct tide_judging *j, const struct drop *drop)
{
    size_t first = moment_of(j, drop);
    double before = INFINITY;
    for (size_t i = first, n = 0; i-- > 0 && n < TIDE_DROP_MOMENTS; n++)
        before = fmin(before, j->moments.low[i]);
    j->v->drop_x = j->moments.x[first];
    j->v->drop_bytes = fmax(before, j->y[drop->top]) - j->y[drop->bottom];
}

/* Returns at which rate the floor usually rises between two points, over a quarter of the way: what it jumps
 * by in between does not count. */
static double usual_rate(const struct tide_judging *j, size_t first, size_t last)
{
    size_t apart = (last - first) / 4 > 1 ? (last - first) / 4 : 1, n = 0;
    double *rates = tide_arena_take(j->scratch, last - first + 1, sizeof *rates);
    for (size_t i = first; rates && i + apart <= last; i++)
        rates[n++] = (j->y[i + apart] - j->y[i]) / (j->x[i + apart] - j->x[i]);
    return n ? tide_median(rates, n) : INFINITY;
}

/* Once the drop is said: true if what rises after it may be the second ramp of a sawtooth: the floor rose
 * like that before it, and has not risen far past it. */
static bool may_drop_again(const struct tide_judging *j, const struct drop *drop)
{
    size_t first = tide_judging_behind_warmup(j), last = j->n - 1;
    first = first > drop->before ? first : drop->before;
    if (first + TIDE_DROP_WINDOWS > drop->top)
        first = drop->top > TIDE_DROP_WINDOWS ? drop->top - TIDE_DROP_WINDOWS : 0;
    double rise = j->y[last] - j->y[drop->bottom], rate = rise / (j->x[last] - j->x[drop->bottom]);
    bool level = drop->top >= TIDE_DROP_WINDOWS && usual_rate(j, first, drop->top) <= TIDE_DROP_LEVEL * rate;
    bool few = j->n - drop->bottom < 2 * TIDE_FEWEST_WINDOWS;
    size_t from = moment_at(j, j->x[drop->bottom]);
    bool falls =
        tide_judging_retreat(j->moments.low + from, j->moments.count - from) > TIDE_LEAK_RETREAT * rise;
    return few || falls || (!level && rise <= TIDE_DROP_PAST * j->v->drop_bytes);
}

/* Judges what follows a drop: memory that was freed at once, such as a model that is no longer needed, says
 * nothing about it. False, and nothing is changed, if that comes up again at once: then it was a dip. */
static bool decide_after_drop(struct tide_judging *j, const struct drop *drop)
{
    struct tide_verdict before = *j->v;
    size_t start = j->start;
    say_drop(j, drop);
    tide_judging_fit_from(j, drop->bottom);
    decide_by_shape(j);
    if (j->v->kind == TIDE_JUMP || j->v->kind == TIDE_PLATEAU) {
        *j->v = before;
        tide_judging_fit_from(j, start);
        return false;
    }
    if (j->v->kind == TIDE_LEAK && may_drop_again(j, drop)) {
        tide_judging_fit_from(j, drop->bottom);
        tide_judging_say_undecided(j, &j->fits[TIDE_MODEL_LINE]);
        say_jump_beside(j);
    }
    if (j->v->kind == TIDE_LEAK && isnan(j->v->since_x))
        j->v->since_x = j->v->drop_x;
    return true;
}

/* True if the floor jumps so soon after warm-up that no level was seen before: both are one rise. */
static bool jumps_out_of_warmup(const struct tide_judging *j)
{
    bool jumps = j->best.model == TIDE_MODEL_JUMP || j->best.model == TIDE_MODEL_JUMP_LINE;
    return j->start > 0 && jumps && is_jump(j, height_of_jump(&j->best)) &&
           j->points.x[TIDE_BEHIND_KNEE - 1] >= j->best.k;
}

/* True if a bump before window `end` was as long as these windows, and about as high over the level. */
static bool was_like_before(const struct tide_floor *f, size_t end, double level, double height)
{
    size_t run = 0;
    for (size_t i = 0; i < end; i++) {
        run = !f->kept[i] && f->bytes[i] - level >= TIDE_END_BEFORE * height ? run + 1 : 0;
        if (run >= f->count - end)
            return true;
    }
    return false;
}

/* True if the windows at the end were left out of the floor as the beginning of a bump, and memory rises in
 * them to where it hardly was before: they may be the beginning of a leak. A spike that is going on, such as
 * a last evaluation, jumps up; the last tooth of a sawtooth comes no higher than the others. */
static bool rises_at_end(const struct tide_judging *j)
{
    const struct tide_floor *f = &j->floor;
    size_t end = f->count;
    while (end > 0 && !f->kept[end - 1])
        end--;
    size_t from = end * f->moments / f->count, middle = (from + f->moments) / 2;
    if (end == f->count || f->moments - from < TIDE_END_MOMENTS + 1)
        return false;
    double level = -INFINITY;
    for (size_t i = 0; i < end; i++)
        level = f->kept[i] ? fmax(level, f->bytes[i]) : level;
    double first = share_under(j, from, middle, 0.5), last = share_under(j, middle, f->moments, 0.5);
    double height = last - level, before = share_under(j, 0, from, TIDE_END_ABOVE);
    return tide_judging_matters(j, last - first) && last - first >= TIDE_END_RISES * height &&
           last > before && !was_like_before(f, end, level, height);
}

static void decide(struct tide_judging *j)
{
    if (tide_judging_decide_one_pass(j))
        return;
    tide_judging_skip_warmup(j);
    if (j->points.n < TIDE_FEWEST_WINDOWS)
        return tide_judging_say_undecided(j, &j->fits[TIDE_MODEL_LINE]);
    if (jumps_out_of_warmup(j))
        tide_judging_fit_from(j, 0);
    struct drop drop;
    bool fell = find_drop(j, &drop),
         enough = fell && drop.is_low && j->n - drop.bottom >= TIDE_FEWEST_WINDOWS;
    if (enough && decide_after_drop(j, &drop))
        return;
    decide_by_shape(j);
    if (j->v->kind == TIDE_FLAT && ((fell && !enough && rises_since(j, &drop)) || rises_at_end(j)))
        return tide_judging_say_undecided(j, &j->fits[TIDE_MODEL_LINE]);
    if (j->v->kind == TIDE_FLAT)
        tide_judging_look_for_early_knee(j);
}

static void forecast(struct tide_judging *j)
{
    struct tide_verdict *v = j->v;
    double room = j->input->limit_bytes - (v->floor_last + (v->spikes.count ? v->spikes.typical_bytes : 0));
    if (v->kind != TIDE_LEAK || !isfinite(room) || !(v->slope > 0))
        return;
    for (size_t i = 0; i < j->moments.count; i++)
        if (j->moments.high[i] >= j->input->limit_bytes) {
            v->limit_x = v->limit_x_low = v->limit_x_high = j->moments.x[i];
            return;
        }
    room = fmax(room, 0);
    v->limit_x = v->x_last + room / v->slope;
    v->limit_x_low = v->x_last + room / v->slope_high;
    v->limit_x_high = v->slope_low > 0 ? v->x_last + room / v->slope_low : INFINITY;
}

static struct tide_verdict nothing_known(void)
{
    struct tide_verdict v = {
        .kind = TIDE_UNDECIDED, .shape = TIDE_SHAPE_UNKNOWN, .confidence = 0.5, .spikes = {.phase = -1}};
    v.growth_bytes = v.slope = v.slope_low = v.slope_high = v.slope_x = v.slowed_x = v.since_x = NAN;
    v.knee_x = v.ceiling_bytes = v.bytes_per_item = v.jump_x = v.jump_bytes = v.jump_after = NAN;
    v.stair_period = v.drop_x = v.drop_bytes = v.limit_x = v.limit_x_low = v.limit_x_high = NAN;
    v.steps_needed = v.needed_for = v.detectable = NAN;
    return v;
}

static int prepare(struct tide_judging *j, struct tide_err *err)
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
    double least_noise = fmax(TIDE_NOISE_LEAST, TIDE_NOISE_SHARE * j->level);
    j->points = (struct tide_points){.x = j->u, .y = j->y, .n = j->n, .least_noise = least_noise};
    return 0;
}

/* True if shapes can be fitted to the floor. */
static bool is_enough(const struct tide_judging *j)
{
    return j->n >= 3 && j->x[j->n - 1] > j->x[0];
}

static void fill_ends(struct tide_judging *j)
{
    struct tide_verdict *v = j->v;
    v->x_first = j->moments.x[0];
    v->x_last = j->moments.x[j->moments.count - 1];
    v->peak = j->moments.high[0];
    for (size_t i = 0; i < j->moments.count; i++)
        v->peak = fmax(v->peak, j->moments.high[i]);
    v->start_x = j->x[j->start];
    bool fitted = is_enough(j) && j->points.n >= 2 && tide_judging_span(j) > 0 && isfinite(j->best.rss);
    /* A flat floor wanders, and the best shape follows it. If the ends of that shape are more than a few
     * pages apart, the level is reported instead. */
    bool wide = fabs(tide_fit_value(&j->best, 1) - tide_fit_value(&j->best, 0)) > TIDE_LEAK_LEAST;
    bool falls = tide_fit_value(&j->best, 0) - tide_fit_value(&j->best, 1) > TIDE_LEVEL_FALL * j->level;
    const struct tide_fit *said =
        v->kind == TIDE_FLAT && wide && !falls ? &j->fits[TIDE_MODEL_FLAT] : &j->best;
    v->floor_first = fitted ? tide_fit_value(said, 0) : j->y[j->start];
    v->floor_last =
        fitted ? tide_fit_value(said, (v->x_last - v->start_x) / tide_judging_span(j)) : j->y[j->n - 1];
    if (v->shape == TIDE_SHAPE_STAIRCASE)
        v->floor_last = j->y[j->n - 1];
    v->floor_last = fmin(v->floor_last, v->peak); /* the fit may go on after the last window */
    v->growth_bytes = v->floor_last - v->floor_first;
    tide_judging_range(j, &v->floor_lowest, &v->floor_highest);
}

/* One or two moments: nothing can be fitted. Asks for as many more as are missing to TIDE_SHORT_MOMENTS. */
static void say_too_few(struct tide_judging *j)
{
    const struct tide_moments *m = &j->moments;
    double stride = m->count > 1 ? (m->x[m->count - 1] - m->x[0]) / (double)(m->count - 1) : 1;
    j->v->steps_needed = stride * (double)(TIDE_SHORT_MOMENTS > m->count ? TIDE_SHORT_MOMENTS - m->count : 1);
}

int tide_judge(const struct tide_judge_input *input, struct tide_arena *scratch,
               struct tide_verdict *ret_verdict, struct tide_err *err)
{
    struct tide_arena_mark mark = tide_arena_mark(scratch);
    struct tide_verdict verdict = nothing_known();
    struct tide_judging j = {.input = input, .scratch = scratch, .v = &verdict};
    int status = prepare(&j, err);
    if (status == 0) {
        if (is_enough(&j))
            decide(&j);
        else
            say_too_few(&j);
        fill_ends(&j);
        if (tide_judging_find_spikes(&j))
            status = tide_err_set(err, "not enough memory to judge the series");
        if (verdict.kind == TIDE_FLAT && verdict.spikes.count)
            verdict.kind = TIDE_SPIKES;
        if (verdict.kind == TIDE_LEAK)
            verdict.slowed_x = find_slowing(&j);
        if (verdict.kind == TIDE_LEAK && isfinite(input->items_per_step))
            verdict.bytes_per_item = verdict.slope / input->items_per_step;
        forecast(&j);
        *ret_verdict = verdict;
    }
    tide_arena_rewind(scratch, mark);
    return status;
}

int tide_judge_drift(const struct tide_judge_input *input, double from_x, struct tide_arena *scratch,
                     struct tide_drift *ret_drift, struct tide_err *err)
{
    struct tide_arena_mark mark = tide_arena_mark(scratch);
    struct tide_judging j = {.input = input, .scratch = scratch};
    int status = prepare(&j, err);
    size_t start = 0;
    while (status == 0 && start < j.n && j.x[start] < from_x)
        start++;
    if (status == 0 && j.n - start >= TIDE_FEWEST_WINDOWS) {
        tide_judging_fit_from(&j, start);
        const struct tide_fit *line = &j.fits[TIDE_MODEL_LINE];
        double span = tide_judging_span(&j), t = tide_t_quantile95(line->freedom);
        double wide = TIDE_INTERVAL_WIDER * t * line->error[1];
        *ret_drift =
            (struct tide_drift){.slope = line->beta[1] / span,
                                .slope_low = (line->beta[1] - wide) / span,
                                .slope_high = (line->beta[1] + wide) / span,
                                .growth_bytes = tide_fit_value(&j.best, 1) - tide_fit_value(&j.best, 0)};
        status = 1;
    }
    tide_arena_rewind(scratch, mark);
    return status;
}

bool tide_verdict_grows(const struct tide_verdict *v)
{
    return v->kind == TIDE_LEAK ||
           (v->kind == TIDE_RETENTION && v->shape != TIDE_SHAPE_SATURATING && v->shape != TIDE_SHAPE_STEP);
}

const char *tide_verdict_name(enum tide_verdict_kind kind)
{
    static const char *const names[TIDE_VERDICTS] = {"flat", "spikes",    "leak",     "plateau",
                                                     "jump", "undecided", "retention"};
    return names[kind];
}

const char *tide_shape_name(enum tide_shape shape)
{
    static const char *const names[TIDE_SHAPES] = {"level",      "linear", "staircase", "accelerating",
                                                   "saturating", "step",   "unknown"};
    return names[shape];
}
