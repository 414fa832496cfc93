/*
 * fit.h - the shapes a floor can have, fitted by least squares and compared by an information criterion.
 *
 * x is scaled to [0, 1] over the points that are fitted. Each shape is a constant plus up to two columns. For
 * shapes with a bend or a break, its place is searched on a grid. Residuals of memory floors are
 * autocorrelated: the first-order autocorrelation of the residuals widens every standard error and reduces
 * every sample size in the criterion.
 */
#ifndef TIDE_FIT_H
#define TIDE_FIT_H

#include <stddef.h>

enum tide_model {
    TIDE_MODEL_FLAT,
    TIDE_MODEL_LINE,       /* a + b x */
    TIDE_MODEL_JUMP,       /* a + b [x >= k] */
    TIDE_MODEL_PLATEAU,    /* a + b min(x, k) */
    TIDE_MODEL_ONSET,      /* a + b max(0, x - k) */
    TIDE_MODEL_SATURATION, /* a + b (1 - exp(-x / k)) */
    TIDE_MODEL_POWER,      /* a + b x^k, k > 1 */
    TIDE_MODEL_BEND,       /* a + b x + c max(0, x - k) */
    TIDE_MODEL_JUMP_LINE,  /* a + b x + c [x >= k] */
    TIDE_MODELS
};

struct tide_fit {
    enum tide_model model;
    double k;          /* bend, break or time constant, in [0, 1] */
    double beta[3];    /* a, b, c */
    double error[3];   /* standard errors, corrected for autocorrelation */
    double covariance; /* of b and c */
    double freedom;    /* degrees of freedom, corrected for autocorrelation */
    double rss;        /* residual sum of squares */
    double noise;      /* residual standard deviation */
    double bic;
    double tail, tail_error; /* slope at the end, in bytes per unit of scaled x */
};

/* What shapes are fitted to. */
struct tide_points {
    const double *x, *y; /* x in [0, 1] */
    size_t n;
    double least_noise; /* keeps a perfect fit from being infinitely sure */
    double correlation; /* for errors and bic */
};

struct tide_fit tide_fit_model(enum tide_model model, const struct tide_points *points);

/* The same with k given. */
struct tide_fit tide_fit_model_at(enum tide_model model, double k, const struct tide_points *points);

/*
 * Autocorrelation of the residuals of a fit, corrected for the bias of short series; in [0, 0.97]. Memory
 * noise has a fast part and a slow part, so the correlation at lag one understates how long it lasts. The
 * decay is estimated from lags one and two; the result is that of the first-order process with the same
 * long-run variance.
 */
double tide_fit_correlation(const struct tide_fit *fit, const struct tide_points *points);

double tide_fit_value(const struct tide_fit *fit, double x);

/* A straight line by least squares. error: standard error of the slope; rss: residual sum of squares. */
struct tide_line {
    double slope, error, mean_x, mean_y, rss;
};

/* x NULL: 0, 1, 2, ... The slope is 0 if all x are the same. */
struct tide_line tide_line_through(const double *x, const double *y, size_t n);

/* Two-sided 95 % quantile of Student's t, to within 0.1 % (df rounded to a whole number below 3.5), and upper
 * tail of a normal. */
double tide_t_quantile95(double df);
double tide_normal_tail(double z);

/* How far the mean of a Poisson variable may lie below, and above, the count: 95 % interval. */
double tide_poisson_below95(double count);
double tide_poisson_above95(double count);

/* Combines two independent errors. (hypot, which works for all numbers, would need glibc 2.35.) */
double tide_error_of_both(double a, double b);

#endif
