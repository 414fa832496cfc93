/*
 * optimizer.h - the optimizers: the state each keeps for a parameter, and how it updates one.
 *
 * An optimizer is a row of a table (optimizer.c) and one file (optimizer_NAME.c) that defines its meaning.
 * For each parameter it keeps parts (tide_optimizer_parts): arrays that start as zeros and are saved by name.
 * A reference defines what a step does. A device's kernel is another file: cpu/cpu_NAME.c (cpu/update.h).
 *
 * An update gives the same bits however it is split among threads. Everything is computed in f32 (sums in
 * f64) and rounded once: f32 weights to nearest, bf16 weights stochastically (rounding.h), so that steps
 * smaller than a unit in the last place are not lost on average. The random numbers depend on the seed, the
 * step, the parameter's number and the weight's index.
 *
 * Gradients must be finite: the caller checks their norm first and skips the step if it is not.
 */
#ifndef TIDE_OPTIMIZER_H
#define TIDE_OPTIMIZER_H

#include "rt/dtype.h"

#include <stdbool.h>

enum { TIDE_STATE_PARTS = 4 };

/* A part of an optimizer's state for a parameter. */
struct tide_state_part {
    const char *name; /* in a checkpoint: the published implementation's, if there is one; NULL: not saved */
    enum tide_dtype dtype;
    int64_t count;
    bool is_shaped; /* like the parameter; else a plain vector */
};

/* A parameter that trains, and where its data lie. */
struct tide_trained {
    int64_t rows, columns; /* of a vector: 1 and its length */
    enum tide_dtype dtype; /* of its weights and of their gradient: f32 or bf16 */
    uint64_t number;       /* identifies it, the same in every run */
    void *weight;
    const void *gradient;
    void *parts[TIDE_STATE_PARTS];
};

/* The settings of a step. */
struct tide_optimizer_step {
    float rate, beta1, beta2, epsilon, decay; /* beta1 is the momentum of sgd */
    float scale;                              /* the gradient is multiplied by it: the clip */
    int64_t step;                             /* from 1 */
    uint64_t seed;
};

/* The same as kernels use it. */
struct tide_factors {
    struct tide_optimizer_step of;
    float corrected; /* rate / (1 - beta1^step) */
    float inverse;   /* 1 / (1 - beta2^step) */
    float keep;      /* the share of a weight that decoupled decay leaves */
    uint64_t seed;   /* of this step */
};

struct tide_optimizer {
    const char *name;
    /* Fills ret_parts and returns how many there are. */
    int (*parts)(int64_t rows, int64_t columns, struct tide_state_part *ret_parts);
    /* The meaning, in f64 on one thread: rounds and writes the state, and writes the new weights to
     * ret_weight before rounding. Leaves the weights unchanged. */
    void (*reference)(const struct tide_trained *trained, const struct tide_optimizer_step *step,
                      double *ret_weight);
};

/* All of them, NULL-terminated; the first is AdamW. */
extern const struct tide_optimizer *const tide_optimizers[];

/* Returns NULL if there is none of that name. */
const struct tide_optimizer *tide_optimizer_find(const char *name);

/* Fills in the parts of a parameter's state and returns how many there are. */
int tide_optimizer_parts(const struct tide_optimizer *optimizer, int64_t rows, int64_t columns,
                         struct tide_state_part ret_parts[TIDE_STATE_PARTS]);

struct tide_factors tide_optimizer_factors(const struct tide_optimizer_step *step);

extern const struct tide_optimizer tide_optimizer_adamw, tide_optimizer_adamw8, tide_optimizer_adafactor,
    tide_optimizer_sgd;

#endif
