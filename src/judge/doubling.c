#include "judge/doubling.h"
#include "judge/fit.h"
#include "judge/floor.h"
#include "judge/thresholds.h"

#include <math.h>
#include <string.h>

enum { JUMPS_MOST = 64 };

/* The moments at which the container was full: its size then, and the factor by which it grew. Those before
 * `first` do not count. */
struct fillings {
    double x[JUMPS_MOST], bytes[JUMPS_MOST], factor[JUMPS_MOST];
    size_t first, end;
    double now; /* its size at the end */
};

static size_t count(const struct fillings *f)
{
    return f->end - f->first;
}

/* Finds the jumps of the level below which the series never falls again, which hides copies in progress. */
static bool find_jumps(const struct tide_judge_input *input, struct tide_arena *scratch, struct fillings *f)
{
    size_t n = input->count;
    double *lasting = tide_arena_take(scratch, n, sizeof *lasting), by_jumps = 0;
    if (!lasting || n < 2)
        return false;
    lasting[n - 1] = input->bytes[n - 1];
    for (size_t i = n - 1; i-- > 0;)
        lasting[i] = fmin(input->bytes[i], lasting[i + 1]);
    f->now = lasting[n - 1];
    for (size_t i = 1; i < n; i++) {
        double before = lasting[i - 1], after = lasting[i];
        if (before < TIDE_DOUBLING_FROM * f->now || after < TIDE_DOUBLING_JUMP * before)
            continue;
        if (f->end == JUMPS_MOST)
            return false;
        f->x[f->end] = input->x[i];
        f->bytes[f->end] = before;
        f->factor[f->end++] = after / before;
        by_jumps += after - before;
    }
    return f->end >= TIDE_DOUBLING_JUMPS && f->bytes[0] > 0 &&
           by_jumps >= TIDE_DOUBLING_SHARE * (f->now - f->bytes[0]);
}

static double usual_factor(const struct fillings *f)
{
    double factors[JUMPS_MOST];
    memcpy(factors, f->factor + f->first, count(f) * sizeof *factors);
    return tide_median(factors, count(f));
}

static bool is_alike(const struct fillings *f, double factor)
{
    for (size_t i = f->first; i < f->end; i++)
        if (f->factor[i] > factor * TIDE_DOUBLING_ALIKE || f->factor[i] * TIDE_DOUBLING_ALIKE < factor)
            return false;
    return true;
}

/* Drops the first jumps until the rest are alike: they may come so fast that no look falls between them. */
static void drop_unlike(struct fillings *f)
{
    while (count(f) >= TIDE_DOUBLING_JUMPS && !is_alike(f, usual_factor(f)))
        f->first++;
}

bool tide_doubling_find(const struct tide_judge_input *input, struct tide_arena *scratch,
                        struct tide_doubling *ret)
{
    struct tide_arena_mark mark = tide_arena_mark(scratch);
    struct fillings f = {.end = 0};
    bool jumps = find_jumps(input, scratch, &f);
    tide_arena_rewind(scratch, mark);
    if (jumps)
        drop_unlike(&f);
    if (!jumps || count(&f) < TIDE_DOUBLING_JUMPS)
        return false;
    struct tide_line line = tide_line_through(f.x + f.first, f.bytes + f.first, count(&f));
    if (!(line.slope > 0))
        return false;
    double n = (double)count(&f), first = f.x[f.first], end = input->x[input->count - 1];
    double full_at = line.mean_x + (f.now - line.mean_y) / line.slope;
    double off = sqrt(line.rss / n) / (f.bytes[f.end - 1] - f.bytes[f.first]);
    if (off > TIDE_DOUBLING_OFF || end - first > TIDE_DOUBLING_LATE * (full_at - first))
        return false; /* it does not fill steadily, or should have grown by now */
    double wide = tide_t_quantile95(fmax(n - 2, 1)) * line.error;
    *ret = (struct tide_doubling){.factor = usual_factor(&f),
                                  .jumps = count(&f),
                                  .slope = line.slope,
                                  .slope_low = line.slope - wide,
                                  .slope_high = line.slope + wide};
    return true;
}
