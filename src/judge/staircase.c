/*
 * staircase.c - growth in jumps, one per epoch or phase or by itself.
 */
#include "judge/judging.h"

#include <math.h>

/* Rises that come in jumps: true, and the verdict is filled, when jumps explain the growth and have not
 * stopped. */
bool tide_judging_decide_staircase(struct tide_judging *j)
{
    size_t n = tide_judging_points(j);
    const double *x = j->x + j->start, *y = j->y + j->start;
    double *work = tide_arena_take(j->scratch, n, sizeof *work);
    if (!work || n < 8)
        return false;
    for (size_t i = 0; i + 1 < n; i++)
        work[i] = fabs(y[i + 1] - y[i]);
    double usual = tide_median(work, n - 1) / TIDE_MAD_SIGMA;
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
    if (stairs < TIDE_STAIRS_LEAST || in_stairs - down < TIDE_STAIR_SHARE * rise ||
        down > TIDE_STAIR_DOWN * in_stairs || rise <= 0 || stairs > n / 2 ||
        in_stairs > TIDE_STAIR_OVER * rise || tallest > TIDE_STAIR_TALLEST * in_stairs)
        return false;
    double period = (last_x - first_x) / (double)(stairs - 1);
    if (x[n - 1] - last_x > TIDE_STAIR_LATE * period ||
        last_x - first_x < TIDE_STAIR_SPAN * tide_judging_span(j))
        return false;
    double window = tide_judging_span(j) / (double)n, rate = after_first / (last_x - first_x);
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
    v->confidence = tide_judging_confidence(1 - pow(0.25, (double)stairs));
    return true;
}
