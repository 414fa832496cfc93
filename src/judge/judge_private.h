/*
 * judge_private.h - the state of one judgement, shared by the files of src/judge. Nothing else includes it.
 *
 * prepare (judge.c) -> tide_judging_skip_warmup, which fits -> one tide_judging_decide_*, which calls exactly
 * one tide_judging_say_*. Scaled x (u) runs from 0 at `start` to 1 at the last floor point.
 */
#ifndef TIDE_JUDGE_PRIVATE_H
#define TIDE_JUDGE_PRIVATE_H

#include "judge/fit.h"
#include "judge/floor.h"
#include "judge/judge.h"
#include "judge/thresholds.h"

struct tide_judging {
    const struct tide_judge_input *input;
    struct tide_arena *scratch;
    struct tide_moments moments;
    struct tide_floor floor;
    double *x, *y; /* the kept points of the floor, x in input units */
    double *u;     /* room for points.x */
    size_t n, start;
    struct tide_points points; /* of the floor from `start` on, x scaled to [0, 1] */
    double level;
    struct tide_fit fits[TIDE_MODELS];
    struct tide_fit best;
    struct tide_verdict *v;
};

/* ---- the floor, scaled */

double tide_judging_span(const struct tide_judging *j); /* of x, from `start` to the end */
double tide_judging_x(const struct tide_judging *j, double u);

/* ---- fits */

/* Fits every model to the floor from `start` on and picks the simplest good one. */
void tide_judging_fit_from(struct tide_judging *j, size_t start);
/* Returns the index of the first point after what may be warm-up. */
size_t tide_judging_behind_warmup(const struct tide_judging *j);
/* Fits from where warm-up ends. */
void tide_judging_skip_warmup(struct tide_judging *j);
/* The slope of a line through the floor from scaled x `from` on: the growth of late. */
struct tide_fit tide_judging_line_from(const struct tide_judging *j, double from);
/* The interval of a knee that was found at k. */
void tide_judging_knee_interval(const struct tide_judging *j, enum tide_model model, double k,
                                double *ret_low, double *ret_high);
/* Converts Student's t with df degrees of freedom to the normal deviate of the same tail (Wallace 1959). */
double tide_judging_sureness(double t, double df);
/* The same of the slope at the end of a fit. */
double tide_judging_sure_tail(const struct tide_fit *fit);
/* BIC weight of the models marked in `same`, as a share of the weight of all, clamped to [0.5, 0.999]. */
double tide_judging_weight(const struct tide_judging *j, const bool same[TIDE_MODELS]);
double tide_judging_confidence(double probability); /* clamped to [0.5, 0.999] */

/* ---- tests */

/* Returns floor point i, counted from start. Where the best shape is a line with a jump, without the jump. */
double tide_judging_unjumped(const struct tide_judging *j, size_t i);
/* True if a rise of the floor matters: enough bytes, and enough of the level. */
bool tide_judging_matters(const struct tide_judging *j, double bytes);
/* True if the slope at the end of a fit is sure. */
bool tide_judging_is_sure(const struct tide_judging *j, const struct tide_fit *fit);
/* Finds the lowest and the highest point of the floor. */
void tide_judging_range(const struct tide_judging *j, double *ret_lowest, double *ret_highest);
/* Returns the largest drop below an earlier maximum. */
double tide_judging_retreat(const double *bytes, size_t count);
/* True if the slope at the end of a fit, which lasted for `share` of the run, is large and sure enough to be
 * called a leak. */
bool tide_judging_is_leak(const struct tide_judging *j, const struct tide_fit *fit, double share);
/* True if the slope after a bend is a leak: large against the one before, or small but steady to the end. */
bool tide_judging_is_leak_after_bend(const struct tide_judging *j, const struct tide_fit *bend);
/* True if a change of level stands out of the noise and matters against the level. */
bool tide_judging_is_change(const struct tide_judging *j, double bytes);

/* ---- verdicts */

/* fit: whose slope at the end is in doubt. */
void tide_judging_say_undecided(struct tide_judging *j, const struct tide_fit *fit);
void tide_judging_say_level(struct tide_judging *j);
void tide_judging_say_leak(struct tide_judging *j, enum tide_shape shape, const struct tide_fit *fit);
/* rate: bytes per x before the knee. */
void tide_judging_say_plateau(struct tide_judging *j, double knee, double low, double high, double ceiling,
                              double rate);

/* Fills in the verdict's spikes: what rises above the floor after warm-up, and was seen to rise. Returns -1
 * if out of memory. */
int tide_judging_find_spikes(struct tide_judging *j);

/* ---- decisions; those that return bool leave the verdict alone when they return false */

/* True if a plateau rests on the last few windows alone, and memory rose as ever before them. */
bool tide_judging_ends_low(const struct tide_judging *j, const struct tide_fit *fit);
void tide_judging_decide_plateau(struct tide_judging *j, const struct tide_fit *fit);
bool tide_judging_decide_one_pass(struct tide_judging *j);
bool tide_judging_decide_staircase(struct tide_judging *j);
void tide_judging_look_for_early_knee(struct tide_judging *j);
/* Turns growth that fits no shape into a plateau if it stands still at its end. */
void tide_judging_look_for_standstill(struct tide_judging *j);

/* True if the floor stands still at its end, and for longer than it ever did since it began to rise: the rise
 * has stopped, whatever shape fits it. */
bool tide_judging_stands_still(const struct tide_judging *j);

#endif
