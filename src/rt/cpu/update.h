/*
 * update.h - what processors do to parameters: squares for the norm, and the updates of optimizer.h.
 *
 * Each optimizer has a row in the table of update.c. A step is
 *
 *     tide_optimizer_factors() once for parameters that decay and once for those that do not
 *     tide_optimizer_measure() of a parameter when its gradient is complete; most optimizers do nothing
 *     update() of all its ranges, in any order, on any threads, or tide_optimizer_update(), which does all
 *
 * Ranges begin and end at multiples of the optimizer's unit, or at the parameter's end. Nothing is allocated.
 *
 * Sums run over ranges of fixed length in f64, so they do not depend on the number of threads.
 */
#ifndef TIDE_UPDATE_H
#define TIDE_UPDATE_H

#include "rt/optimizer.h"

struct tide_cpu_optimizer {
    const struct tide_optimizer *optimizer;
    int unit; /* numbers; 1: a range may begin anywhere */
    /* Bytes of scratch for measure(); NULL: none. */
    size_t (*scratch)(int64_t rows, int64_t columns);
    /* Reads the whole gradient, on all threads, once a step before any update. NULL: not needed. */
    void (*measure)(const struct tide_trained *trained, const struct tide_factors *factors, void *scratch);
    /* Updates the numbers [first, last) on the calling thread. */
    void (*update)(const struct tide_trained *trained, const struct tide_factors *factors, int64_t first,
                   int64_t last);
};

extern const struct tide_cpu_optimizer tide_cpu_adamw, tide_cpu_adamw8, tide_cpu_adafactor, tide_cpu_sgd;

/* Returns the row of an optimizer. Every one has a row. */
const struct tide_cpu_optimizer *tide_cpu_optimizer(const struct tide_optimizer *optimizer);

/* Bytes of scratch for measuring a parameter. */
size_t tide_optimizer_scratch(const struct tide_optimizer *optimizer, int64_t rows, int64_t columns);

/* scratch: that many bytes, aligned. */
void tide_optimizer_measure(const struct tide_optimizer *optimizer, const struct tide_trained *trained,
                            const struct tide_factors *factors, void *scratch);

/* Updates a whole parameter that was measured, on all threads. */
void tide_optimizer_update(const struct tide_optimizer *optimizer, const struct tide_trained *trained,
                           const struct tide_factors *factors);

/* The sum of squares of numbers in f32 or bf16, on this thread; and on all. */
double tide_squares(const void *numbers, enum tide_dtype dtype, int64_t count);
double tide_update_squares(const void *numbers, enum tide_dtype dtype, int64_t count);

#endif
