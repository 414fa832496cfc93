/*
 * staircase.c - growth in jumps, one per epoch or phase or by itself.
 *
 * A stair is a rise between two neighbouring windows that stands far out of the usual difference of
 * neighbours. Stairs make a staircase when they explain the growth, none of them alone does, they are spread
 * over the run, and they have not stopped.
 */
#include "judge/judge_private.h"

#include <math.h>

struct stairs {
    double usual; /* standard deviation of the difference of neighbours on one tread */
    double tall;  /* least height of a stair */
    double first_x, last_x;
    double first_y, last_y;         /* of the floor after the first and after the last */
    double first_width, last_width; /* from the point before to the one after: the stair is in between */
    double sum, sum_of_squares, down, tallest;
    double sum_of_gaps_squared; /* between one stair and the next */
    size_t count;
    size_t adjoining;            /* how many come right after another, without a tread between them */
    size_t at_epochs, at_phases; /* how many came with one */
};

static bool comes_with(const double *marks, size_t count, double from, double to)
{
    for (size_t i = 0; i < count; i++)
        if (marks[i] >= from && marks[i] <= to)
            return true;
    return false;
}

/* True if marks are so few that one is rarely beside a stair by chance. */
static bool is_rare(const struct tide_judging *j, size_t marks)
{
    return (double)marks <= TIDE_STAIR_MARKS * (double)j->points.n;
}

static bool comes_with_phase(const struct tide_judging *j, double from, double to)
{
    const struct tide_judge_input *input = j->input;
    if (!is_rare(j, 2 * input->phase_count))
        return false;
    for (size_t i = 0; i < input->phase_count; i++) {
        const struct tide_span *p = &input->phases[i];
        if ((p->from >= from && p->from <= to) || (p->to >= from && p->to <= to))
            return true;
    }
    return false;
}

static void add_stair(struct stairs *s, const struct tide_judging *j, size_t i, double step)
{
    const double *x = j->x + j->start, *y = j->points.y;
    double before = i > 0 ? x[i - 1] : x[i], after = i + 2 < j->points.n ? x[i + 2] : x[i + 1];
    s->adjoining += s->count && x[i] <= s->last_x;
    s->count++;
    s->sum += step;
    s->sum_of_squares += step * step;
    s->tallest = fmax(s->tallest, step);
    s->last_width = x[i + 1] - x[i];
    if (s->count == 1) {
        s->first_x = x[i + 1];
        s->first_y = y[i + 1];
        s->first_width = s->last_width;
    } else
        s->sum_of_gaps_squared += (x[i + 1] - s->last_x) * (x[i + 1] - s->last_x);
    s->last_x = x[i + 1];
    s->last_y = y[i + 1];
    s->at_epochs += comes_with(j->input->epochs, j->input->epoch_count, before, after);
    s->at_phases += comes_with_phase(j, before, after);
}

static struct stairs find_stairs(const struct tide_judging *j, double *work)
{
    size_t n = j->points.n;
    const double *y = j->points.y;
    struct stairs s = {0};
    for (size_t i = 0; i + 1 < n; i++)
        work[i] = fabs(y[i + 1] - y[i]);
    s.usual = tide_median(work, n - 1) / TIDE_MAD_SIGMA;
    s.tall = fmax(TIDE_STAIR_NOISES * fmax(s.usual, j->points.least_noise), TIDE_STAIR_LEAST);
    for (size_t i = 0; i + 1 < n; i++) {
        double step = y[i + 1] - y[i];
        if (step >= s.tall)
            add_stair(&s, j, i, step);
        else if (step <= -s.tall)
            s.down -= step;
    }
    return s;
}

/* Returns where the stairs had come to all but half of a usual one: a later rise is no stair like them. */
static double grew_until(const struct tide_judging *j, const struct stairs *s)
{
    const double *y = j->points.y, *x = j->x + j->start;
    double left = s->sum - s->sum / (double)s->count / 2;
    for (size_t i = 0; i + 1 < j->points.n; i++) {
        double step = y[i + 1] - y[i];
        left -= step >= s->tall ? step : 0;
        if (left <= 0)
            return x[i + 1];
    }
    return s->last_x;
}

static double mean_gap(const struct stairs *s)
{
    return (s->last_x - s->first_x) / (double)(s->count - 1);
}

/* Variance of the gaps. A gap is known only to two windows. */
static double gap_variance(const struct stairs *s, double window)
{
    double mean = mean_gap(s);
    return fmax(s->sum_of_gaps_squared / (double)(s->count - 1) - mean * mean - window * window / 6, 0);
}

static bool is_staircase(const struct tide_judging *j, const struct stairs *s)
{
    size_t n = j->points.n;
    double rise = j->y[j->n - 1] - j->y[j->start];
    bool ramp = s->count > n / 2 || (double)s->adjoining > TIDE_STAIR_RAMP * (double)s->count;
    if (!tide_judging_matters(j, rise) || s->count < TIDE_STAIRS_LEAST || ramp)
        return false;
    bool explain = s->sum - s->down >= TIDE_STAIR_SHARE * rise && s->sum <= TIDE_STAIR_OVER * rise &&
                   s->down <= TIDE_STAIR_DOWN * s->sum && s->tallest <= TIDE_STAIR_TALLEST * s->sum;
    double spread = s->last_x - s->first_x;
    bool going_on = j->x[j->n - 1] - grew_until(j, s) <= TIDE_STAIR_LATE * mean_gap(s);
    return explain && going_on && spread >= TIDE_STAIR_SPAN * tide_judging_span(j);
}

/* True if most stairs came with a mark of a kind that is too rare for that to be chance. */
static bool belongs(const struct tide_judging *j, size_t with, size_t stairs, size_t marks)
{
    return (double)with >= TIDE_STAIR_WITH * (double)stairs && is_rare(j, marks);
}

static enum tide_stairs_at where_from(const struct tide_judging *j, const struct stairs *s)
{
    if (belongs(j, s->at_epochs, s->count, j->input->epoch_count))
        return TIDE_STAIRS_AT_EPOCHS;
    return belongs(j, s->at_phases, s->count, 2 * j->input->phase_count) ? TIDE_STAIRS_AT_PHASES
                                                                         : TIDE_STAIRS_BY_THEMSELVES;
}

/*
 * Standard deviation of the sum of that many stairs, if those to come are like those that came. Stairs differ
 * in height, and their number in a stretch varies as the gaps between them do (a renewal process).
 * Stairs of epochs or phases come when these do, so their gaps do not count.
 */
static double unsure_sum(const struct stairs *s, enum tide_stairs_at at, double window)
{
    double count = (double)s->count, mean = s->sum / count, gap = mean_gap(s);
    double height = fmax(s->sum_of_squares / count - mean * mean, 0);
    double uneven = at == TIDE_STAIRS_BY_THEMSELVES ? mean * mean * gap_variance(s, window) / (gap * gap) : 0;
    return sqrt(count * (height + uneven));
}

bool tide_judging_decide_staircase(struct tide_judging *j)
{
    size_t n = j->points.n;
    double *work = n >= TIDE_WINDOWS_LEAST ? tide_arena_take(j->scratch, n, sizeof *work) : NULL;
    if (!work)
        return false;
    struct stairs s = find_stairs(j, work);
    if (!is_staircase(j, &s))
        return false;
    double spread = s.last_x - s.first_x, window = tide_judging_span(j) / (double)n, count = (double)s.count;
    enum tide_stairs_at at = where_from(j, &s);
    double off = unsure_sum(&s, at, window);
    double sureness =
        tide_judging_sureness(s.sum / fmax(tide_error_of_both(off, s.usual), 1e-300), count - 1);
    if (sureness < TIDE_STAIR_Z && j->moments.count >= TIDE_SHORT_MOMENTS)
        return false;
    if (sureness < TIDE_STAIR_Z) { /* any shape may fit so few points */
        tide_judging_say_undecided(j, &j->fits[TIDE_MODEL_LINE]);
        return true;
    }
    /* The growth from the first stair to the last. What is unsure: the places of both (a window, wider where
     * looks came late), the levels (noise), and what the stairs differ by. */
    double rate = (s.last_y - s.first_y) / spread, width = fmax(window, fmax(s.first_width, s.last_width));
    double unsure =
        rate * width / fmax(spread - width, window) + 2 * sqrt(2) * s.usual / spread + off / spread;
    struct tide_verdict *v = j->v;
    v->kind = TIDE_LEAK;
    v->shape = TIDE_SHAPE_STAIRCASE;
    v->slope = rate;
    v->slope_x = j->x[j->start];
    v->slope_low = rate - unsure;
    v->slope_high = rate + unsure;
    if (s.first_x - j->x[j->start] > TIDE_STAIR_LATE * mean_gap(&s))
        v->since_x = v->slope_x = s.first_x - fmin(s.first_width, mean_gap(&s));
    v->stairs = s.count;
    v->stair_period = sqrt(gap_variance(&s, window)) <= TIDE_STAIR_EVEN * mean_gap(&s) ? mean_gap(&s) : NAN;
    v->stairs_at = at;
    v->confidence = tide_judging_confidence(1 - 2 * tide_normal_tail(sureness));
    return true;
}
