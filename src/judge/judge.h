/*
 * judge.h - a series in, a verdict out.
 *
 * Pure: no I/O, no clock, no globals, the same answer for the same input. docs/STATISTICS.md derives the
 * method; every threshold is in thresholds.h.
 *
 * The axis is steps where the run has steps, else seconds. Points may come irregularly, with gaps and in any
 * order; several points at the same x are one moment looked at several times. Values that are not finite are
 * left out.
 */
#ifndef TIDE_JUDGE_H
#define TIDE_JUDGE_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum tide_verdict_kind {
    TIDE_FLAT,      /* neither floor nor peaks move */
    TIDE_SPIKES,    /* the floor is flat, memory rises above it and comes back */
    TIDE_LEAK,      /* the floor rises and has not stopped */
    TIDE_PLATEAU,   /* the floor rose and has stopped */
    TIDE_JUMP,      /* the floor made one step */
    TIDE_UNDECIDED, /* not enough data to tell */
    TIDE_RETENTION, /* memory rises or rose, but what the program holds does not; retention.h decides that,
                       tide_judge() never does */
    TIDE_VERDICTS
};

enum tide_shape {
    TIDE_SHAPE_LEVEL,        /* flat, spikes */
    TIDE_SHAPE_LINEAR,       /* leak: the same amount per step */
    TIDE_SHAPE_STAIRCASE,    /* leak: in jumps, at epochs or phases or at other times */
    TIDE_SHAPE_ACCELERATING, /* leak: more per step as it goes */
    TIDE_SHAPE_SATURATING,   /* plateau */
    TIDE_SHAPE_STEP,         /* jump */
    TIDE_SHAPE_UNKNOWN,      /* undecided */
    TIDE_SHAPES
};

enum tide_stairs_at { TIDE_STAIRS_BY_THEMSELVES, TIDE_STAIRS_AT_EPOCHS, TIDE_STAIRS_AT_PHASES };

/* A stretch of the axis in which a phase was running. */
struct tide_span {
    double from, to;
    int name; /* index of the phase, chosen by the caller; struct tide_spikes reports it */
};

struct tide_judge_input {
    const double *x; /* steps or seconds */
    const double *bytes;
    size_t count;
    bool x_is_steps;
    const int *phase_of; /* for each point the name of the phase that ran, -1: none; NULL: use `phases` */
    const struct tide_span *phases; /* in the order in which they began; may be NULL */
    size_t phase_count;
    const double *epochs; /* x at which epochs began; may be NULL */
    size_t epoch_count;
    double items;          /* in one pass over the data; NAN: unknown */
    double items_per_step; /* NAN: unknown */
    double limit_bytes;    /* NAN: unknown */
};

struct tide_spikes {
    size_t count;
    double typical_bytes; /* median height over the floor */
    double largest_bytes;
    int phase;       /* index of the phase that holds most of them, or -1 */
    size_t in_phase; /* how many that phase holds */
    size_t returned; /* how many came back to the floor */
};

/* NAN where a number does not apply. */
struct tide_verdict {
    enum tide_verdict_kind kind;
    enum tide_shape shape;
    double confidence; /* 0.5 to 1: how likely the kind is right */
    double x_first, x_last;
    double start_x;     /* where warm-up ends */
    double floor_first; /* of the fitted floor at start_x, in bytes */
    double floor_last;
    double floor_lowest, floor_highest;  /* of the floor's windows since start_x */
    double peak;                         /* largest value seen */
    double growth_bytes;                 /* of the floor, start_x to x_last */
    double slope, slope_low, slope_high; /* bytes per step or second, with a 95 % interval; jump: only
                                            slope_high, of a rise beside it */
    double slope_x;                      /* leak: the slope was measured from here to the end */
    double slowed_x;                     /* leak: where growth slowed down, if it did */
    double since_x;                      /* leak: where it began, if the floor was level before; else NAN */
    double knee_x;                       /* plateau */
    double ceiling_bytes;                /* plateau: the level after the knee */
    double bytes_per_item;               /* if items per step are known and memory grows or grew */
    bool one_pass;                       /* plateau: the knee is where one pass over the items ends */
    double jump_x, jump_bytes;           /* jump, also beside a leak or undecided: first moment after it */
    double jump_after;                   /* last moment before it */
    double stair_period;                 /* staircase: x between two stairs; NAN: irregular */
    size_t stairs;                       /* staircase: how many */
    enum tide_stairs_at stairs_at;
    double drop_x,
        drop_bytes; /* where the floor fell at once, and by how much: only what follows is judged */
    double limit_x, limit_x_low, limit_x_high; /* leak: where floor and spikes reach limit_bytes */
    double steps_needed;                       /* undecided: how much more x would settle it */
    double needed_for;                         /* undecided: the slope that steps_needed would settle */
    double detectable;                         /* undecided, flat: a leak of this slope would have shown */
    struct tide_spikes spikes;
};

/* Judges a series. Rewinds scratch before it returns. Returns 0, or -1 (out of memory, or no points). */
int tide_judge(const struct tide_judge_input *input, struct tide_arena *scratch,
               struct tide_verdict *ret_verdict, struct tide_err *err);

/* The trend of a series' floor from some x on, whatever the verdict is. */
struct tide_drift {
    double slope, slope_low, slope_high; /* of a line, per step or second, with a 95 % interval */
    double growth_bytes;                 /* to the end, by the shape that fits best */
};

/* Returns 1; 0 if there are too few points from from_x on; -1 as tide_judge(). */
int tide_judge_drift(const struct tide_judge_input *input, double from_x, struct tide_arena *scratch,
                     struct tide_drift *ret_drift, struct tide_err *err);

/* True if memory has not stopped rising: a leak, or retention that still grows. */
bool tide_verdict_grows(const struct tide_verdict *verdict);

const char *tide_verdict_name(enum tide_verdict_kind kind);
const char *tide_shape_name(enum tide_shape shape);

#endif
