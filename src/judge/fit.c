#include "judge/fit.h"
#include "judge/thresholds.h"

#include <math.h>
#include <stdbool.h>

enum { GRID = 120 };

/* For a thousand call sites ten million points are fitted. The loops over points are compiled once for each
 * shape, so that no point has to branch on the shape. */
#define FOR_EACH_SHAPE static inline __attribute__((always_inline))

FOR_EACH_SHAPE int columns_of(enum tide_model model, double k, double x, double column[3])
{
    column[0] = 1;
    switch (model) {
    case TIDE_MODEL_FLAT:
        return 1;
    case TIDE_MODEL_LINE:
        column[1] = x;
        return 2;
    case TIDE_MODEL_JUMP:
        column[1] = x >= k;
        return 2;
    case TIDE_MODEL_PLATEAU:
        column[1] = x < k ? x : k;
        return 2;
    case TIDE_MODEL_ONSET:
        column[1] = x > k ? x - k : 0;
        return 2;
    case TIDE_MODEL_SATURATION:
        column[1] = 1 - exp(-x / k);
        return 2;
    case TIDE_MODEL_POWER:
        column[1] = x > 0 ? pow(x, k) : 0;
        return 2;
    case TIDE_MODEL_BEND:
        column[1] = x;
        column[2] = x > k ? x - k : 0;
        return 3;
    case TIDE_MODEL_JUMP_LINE:
        column[1] = x;
        column[2] = x >= k;
        return 3;
    default:
        return 0;
    }
}

/* Returns how many numbers are fitted. */
static int parameters_of(enum tide_model model)
{
    double column[3];
    bool has_k = model != TIDE_MODEL_FLAT && model != TIDE_MODEL_LINE;
    return columns_of(model, 1, 0, column) + has_k;
}

/* Inverts the symmetric positive p x p matrix m in place by Gauss-Jordan; 0 if it is singular. */
FOR_EACH_SHAPE int invert(double m[3][3], int p)
{
    double work[3][6] = {{0}};
    for (int i = 0; i < p; i++) {
        for (int j = 0; j < p; j++)
            work[i][j] = m[i][j];
        work[i][p + i] = 1;
    }
    for (int c = 0; c < p; c++) {
        int pivot = c;
        for (int r = c + 1; r < p; r++)
            if (fabs(work[r][c]) > fabs(work[pivot][c]))
                pivot = r;
        if (fabs(work[pivot][c]) < 1e-10)
            return 0;
        for (int j = 0; j < 2 * p; j++) {
            double swap = work[c][j];
            work[c][j] = work[pivot][j];
            work[pivot][j] = swap;
        }
        double by = work[c][c];
        for (int j = 0; j < 2 * p; j++)
            work[c][j] /= by;
        for (int r = 0; r < p; r++) {
            double factor = work[r][c];
            if (r == c || factor == 0)
                continue;
            for (int j = 0; j < 2 * p; j++)
                work[r][j] -= factor * work[c][j];
        }
    }
    for (int i = 0; i < p; i++)
        for (int j = 0; j < p; j++)
            m[i][j] = work[i][p + j];
    return 1;
}

FOR_EACH_SHAPE double value_at(enum tide_model model, double k, const double beta[3], double x)
{
    double column[3] = {0}, value = 0;
    int p = columns_of(model, k, x, column);
#pragma GCC unroll 3
    for (int i = 0; i < p; i++)
        value += beta[i] * column[i];
    return value;
}

double tide_fit_value(const struct tide_fit *fit, double x)
{
    return value_at(fit->model, fit->k, fit->beta, x);
}

/* Slope at the end and its error, from the coefficients. */
static void fill_tail(struct tide_fit *fit)
{
    double b = fit->beta[1], c = fit->beta[2], weight;
    switch (fit->model) {
    case TIDE_MODEL_LINE:
    case TIDE_MODEL_ONSET:
    case TIDE_MODEL_JUMP_LINE:
        fit->tail = b;
        fit->tail_error = fit->error[1];
        break;
    case TIDE_MODEL_SATURATION:
        weight = exp(-1 / fit->k) / fit->k;
        fit->tail = b * weight;
        fit->tail_error = fit->error[1] * weight;
        break;
    case TIDE_MODEL_POWER:
        fit->tail = b * fit->k;
        fit->tail_error = fit->error[1] * fit->k;
        break;
    case TIDE_MODEL_BEND:
        fit->tail = b + c;
        fit->tail_error = sqrt(
            fmax(0, fit->error[1] * fit->error[1] + fit->error[2] * fit->error[2] + 2 * fit->covariance));
        break;
    default:
        fit->tail = fit->tail_error = 0;
    }
}

/* Computes the coefficients, the inverse of the Gram matrix and the residual sum of squares. Returns the
 * number of columns; 0 if they are linearly dependent, or if the sum exceeds most_rss. */
FOR_EACH_SHAPE int solve_shape(enum tide_model model, const struct tide_points *points, double most_rss,
                               struct tide_fit *fit, double gram[3][3])
{
    const double *x = points->x, *y = points->y;
    double moment[3] = {0}, product[3][3] = {{0}}, column[3] = {0}, rss = 0;
    double origin = points->n ? y[0] : 0; /* keeps the sums small where the level is 20 GB */
    int p = columns_of(model, fit->k, 0, column);
    for (size_t i = 0; i < points->n; i++) {
        columns_of(model, fit->k, x[i], column);
#pragma GCC unroll 3
        for (int a = 0; a < p; a++) {
            moment[a] += column[a] * (y[i] - origin);
#pragma GCC unroll 3
            for (int b = a; b < p; b++)
                product[a][b] += column[a] * column[b];
        }
    }
    for (int a = 0; a < p; a++)
        for (int b = 0; b < p; b++)
            gram[a][b] = a < b ? product[a][b] : product[b][a];
    if ((size_t)p > points->n || !invert(gram, p))
        return 0;
    for (int a = 0; a < p; a++)
        for (int b = 0; b < p; b++)
            fit->beta[a] += gram[a][b] * moment[b];
    fit->beta[0] += origin;
    for (size_t i = 0; i < points->n && !(rss > most_rss); i++) {
        double off = y[i] - value_at(model, fit->k, fit->beta, x[i]);
        rss += off * off;
    }
    fit->rss = rss;
    return rss > most_rss ? 0 : p;
}

static int solve(const struct tide_points *points, double most_rss, struct tide_fit *fit, double gram[3][3])
{
#define SHAPE(model)                                                                                         \
    case model:                                                                                              \
        return solve_shape(model, points, most_rss, fit, gram)
    switch (fit->model) {
        SHAPE(TIDE_MODEL_FLAT);
        SHAPE(TIDE_MODEL_LINE);
        SHAPE(TIDE_MODEL_JUMP);
        SHAPE(TIDE_MODEL_PLATEAU);
        SHAPE(TIDE_MODEL_ONSET);
        SHAPE(TIDE_MODEL_SATURATION);
        SHAPE(TIDE_MODEL_POWER);
        SHAPE(TIDE_MODEL_BEND);
        SHAPE(TIDE_MODEL_JUMP_LINE);
    default:
        return 0;
    }
#undef SHAPE
}

/* As tide_fit_model_at(), but gives up a fit whose residual sum of squares exceeds most_rss. */
/* Returns by what a correlation widens a variance, and divides the number of independent points. */
static double widening(double correlation)
{
    return (1 + correlation) / (1 - correlation);
}

/* Returns the fit of a shape that cannot be fitted. */
static struct tide_fit no_fit(enum tide_model model, double k, const struct tide_points *points)
{
    double independent = (double)points->n / widening(points->correlation);
    return (struct tide_fit){.model = model,
                             .k = k,
                             .freedom = fmax(independent - parameters_of(model), TIDE_FREEDOM_LEAST),
                             .rss = INFINITY,
                             .bic = INFINITY};
}

static struct tide_fit fit_within(enum tide_model model, double k, const struct tide_points *points,
                                  double most_rss)
{
    struct tide_fit fit = no_fit(model, k, points);
    double gram[3][3] = {{0}}, n = (double)points->n, least_noise = points->least_noise;
    int p = solve(points, most_rss, &fit, gram);
    if (!p)
        return no_fit(model, k, points);
    int parameters = parameters_of(model);
    double freedom = n - parameters;
    double variance = (fit.rss + n * least_noise * least_noise) / fmax(freedom, 1);
    double widen = widening(points->correlation), effective = fmax(n / widen, 3);
    fit.noise = sqrt(variance);
    for (int a = 0; a < p; a++)
        fit.error[a] = sqrt(variance * widen * gram[a][a]);
    fit.covariance = p == 3 ? variance * widen * gram[1][2] : 0;
    fit.bic = effective * log((fit.rss + n * least_noise * least_noise) / n) + parameters * log(effective);
    fill_tail(&fit);
    return fit;
}

static void fit_if_better(double k, const struct tide_points *points, struct tide_fit *best)
{
    struct tide_fit fit = fit_within(best->model, k, points, best->rss);
    if (fit.rss < best->rss)
        *best = fit;
}

struct tide_fit tide_fit_model_at(enum tide_model model, double k, const struct tide_points *points)
{
    return fit_within(model, k, points, INFINITY);
}

struct tide_fit tide_fit_model(enum tide_model model, const struct tide_points *points)
{
    if (model == TIDE_MODEL_FLAT || model == TIDE_MODEL_LINE)
        return tide_fit_model_at(model, 0, points);
    /* A bend needs points on both sides of it: two for a jump, whose sides are levels, three where a side has
     * a slope. */
    size_t side = model == TIDE_MODEL_JUMP ? 2 : 3, n = points->n;
    const double *x = points->x;
    struct tide_fit best = no_fit(model, 0, points);
    if (model == TIDE_MODEL_SATURATION || model == TIDE_MODEL_POWER) {
        double least = model == TIDE_MODEL_POWER ? 1.25 : 0.02, most = model == TIDE_MODEL_POWER ? 8 : 1.5;
        for (double k = least; k < most; k *= 1.08)
            fit_if_better(k, points, &best);
        return best;
    }
    if (n < 2 * side)
        return best;
    size_t rising = n / 10 > 4 ? n / 10 : 4; /* a slope at the end needs more points than a bump has */
    double from = x[side - 1], to = x[n - side];
    if (model == TIDE_MODEL_PLATEAU) { /* the level side needs fewer points */
        from = x[1];
        to = x[n - 2];
    }
    if (model == TIDE_MODEL_ONSET || model == TIDE_MODEL_BEND) {
        if (n < rising + 2)
            return best;
        to = x[n - rising];
    }
    for (int i = 0; i <= GRID; i++)
        fit_if_better(from + (to - from) * i / GRID, points, &best);
    return best;
}

double tide_fit_correlation(const struct tide_fit *fit, const struct tide_points *points)
{
    double before = 0, earlier = 0, one = 0, two = 0, square = 0;
    size_t n = points->n;
    for (size_t i = 0; i < n; i++) {
        double off = points->y[i] - tide_fit_value(fit, points->x[i]);
        one += i >= 1 ? off * before : 0;
        two += i >= 2 ? off * earlier : 0;
        square += off * off;
        earlier = before;
        before = off;
    }
    if (!(square > 0) || n < 4)
        return 0;
    double bias = (double)parameters_of(fit->model) / (double)n;
    double r1 = one / square, r2 = two / square;
    r1 += (1 + 3 * r1) / (double)n + bias;
    r2 += (1 + 3 * r2) / (double)n + bias;
    if (r1 <= 0)
        return 0;
    double decay = fmin(fmax(r2 / r1, r1), 0.97);
    if (r1 < 2 / sqrt((double)n))
        decay = r1;
    double widen = 1 + 2 * r1 / (1 - decay);
    return fmin((widen - 1) / (widen + 1), 0.97);
}

struct tide_line tide_line_through(const double *x, const double *y, size_t n)
{
    struct tide_line line = {0};
    double sxx = 0, sxy = 0;
    for (size_t i = 0; i < n; i++) {
        line.mean_x += (x ? x[i] : (double)i) / (double)n;
        line.mean_y += y[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double dx = (x ? x[i] : (double)i) - line.mean_x;
        sxx += dx * dx;
        sxy += dx * (y[i] - line.mean_y);
    }
    line.slope = sxx > 0 ? sxy / sxx : 0;
    for (size_t i = 0; i < n; i++) {
        double off = y[i] - line.mean_y - line.slope * ((x ? x[i] : (double)i) - line.mean_x);
        line.rss += off * off;
    }
    line.error = sxx > 0 ? sqrt(line.rss / fmax((double)n - 2, 1) / sxx) : 0;
    return line;
}

double tide_t_quantile95(double df)
{
    static const double few[] = {12.7062, 4.3027, 3.1824}; /* for df = 1, 2, 3, where the series is too low */
    if (df < 3.5)
        return few[df < 1.5 ? 0 : df < 2.5 ? 1 : 2];
    /* Cornish-Fisher about the normal quantile. */
    double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, z9 = z7 * z * z, df2 = df * df;
    return z + (z3 + z) / (4 * df) + (5 * z5 + 16 * z3 + 3 * z) / (96 * df2) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * df2 * df) +
           (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * z) / (92160 * df2 * df2);
}

double tide_normal_tail(double z)
{
    return 0.5 * erfc(z / sqrt(2));
}

/* Returns one end of the interval, to within 0.02, z standard deviations away (Wilson and Hilferty 1931). The
 * lower end takes the count, the upper end one more. */
static double poisson_end(double count, double z)
{
    double root = fmax(1 - 1 / (9 * count) + z / (3 * sqrt(count)), 0);
    return count * root * root * root;
}

double tide_poisson_below95(double count)
{
    return count > 0 ? count - poisson_end(count, -1.959964) : 0;
}

double tide_poisson_above95(double count)
{
    return poisson_end(count + 1, 1.959964) - count;
}

double tide_error_of_both(double a, double b)
{
    return sqrt(a * a + b * b);
}
