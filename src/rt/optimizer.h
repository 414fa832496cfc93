/*
 * optimizer.h - the optimizers there are: what state each keeps of a parameter, and how it updates one.
 *
 * An optimizer is a row of a table (optimizer.c) and one file (optimizer_NAME.c) with what it means: for each
 * parameter it keeps parts (tide_optimizer_parts), arrays that begin as zeros and are saved by name, and a
 * reference says what a step does. How a device does it is another file: cpu/cpu_NAME.c (cpu/update.h).
 *
 * However an update is cut and shared out, every bit is the same. Everything is computed
 * in f32 (sums in f64) and rounded once: weights in f32 to the nearest, weights in bf16 at random
 * (rounding.h), so that steps smaller than a unit in a weight's last place are not lost but taken now and
 * then. What is drawn depends on the seed, the step, the parameter's number and the place of the weight in
 * it.
 *
 * Gradients must be finite: the caller checks their norm first, and leaves out a step whose norm is not a
 * number.
 */
#ifndef TIDE_OPTIMIZER_H
#define TIDE_OPTIMIZER_H

#include "rt/dtype.h"

#include <stdbool.h>

enum { TIDE_STATE_PARTS = 4 };

/* Of an optimizer's state of a parameter. */
struct tide_state_part {
    const char *name; /* in a checkpoint, where its published implementation has one: that; NULL: not saved */
    enum tide_dtype dtype;
    int64_t count;
    bool is_shaped; /* like the parameter; else a row of numbers */
};

/* A parameter that learns, and where its things lie. */
struct tide_trained {
    int64_t rows, columns; /* of a vector: 1 and its length */
    enum tide_dtype dtype; /* of its weights and of their gradient: f32 or bf16 */
    uint64_t number;       /* its own: the same in every run */
    void *weight;
    const void *gradient;
    void *parts[TIDE_STATE_PARTS];
};

/* How a step is made. */
struct tide_optimizer_step {
    float rate, beta1, beta2, epsilon, decay; /* beta1 is the momentum of sgd */
    float scale;                              /* of the gradient: the clip */
    int64_t step;                             /* from 1 */
    uint64_t seed;
};

/* The same as it is computed with. */
struct tide_factors {
    float scale, beta1, beta2, epsilon, rate, decay;
    float corrected; /* rate / (1 - beta1^step) */
    float inverse;   /* 1 / (1 - beta2^step) */
    float keep;      /* of a weight, what decoupled decay leaves */
    int64_t step;
    uint64_t seed; /* of this step */
};

struct tide_optimizer {
    const char *name;
    /* Fills parts; returns how many. */
    int (*parts)(int64_t rows, int64_t columns, struct tide_state_part *ret_parts);
    /* What is meant, in f64 on one thread: state is written and rounded, the new weights go to ret_weight as
     * they are before they are rounded. Weights and everything else stay. */
    void (*reference)(const struct tide_trained *trained, const struct tide_optimizer_step *step,
                      double *ret_weight);
};

/* All of them, NULL-terminated; the first is AdamW. */
extern const struct tide_optimizer *const tide_optimizers[];

/* NULL: there is none of that name. */
const struct tide_optimizer *tide_optimizer_find(const char *name);

/* The parts of a parameter's state; how many. */
int tide_optimizer_parts(const struct tide_optimizer *optimizer, int64_t rows, int64_t columns,
                         struct tide_state_part ret_parts[TIDE_STATE_PARTS]);

struct tide_factors tide_optimizer_factors(const struct tide_optimizer_step *step);

extern const struct tide_optimizer tide_optimizer_adamw, tide_optimizer_adamw8, tide_optimizer_adafactor,
    tide_optimizer_sgd;

#endif
