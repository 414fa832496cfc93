/*
 * update.h - what processors do to parameters: squares for the norm, and the updates of optimizer.h.
 *
 * Each optimizer has a row in the table of update.c. A parameter is updated in chunks (rounding.h), in any
 * order, on any threads. Nothing is allocated.
 *
 * Sums run over ranges of fixed length in f64, so they do not depend on the number of threads.
 */
#ifndef TIDE_UPDATE_H
#define TIDE_UPDATE_H

#include "rt/optimizer.h"

struct tide_cpu_optimizer {
    const struct tide_optimizer *optimizer;
    /* Bytes of scratch for measure(); NULL: none. */
    size_t (*scratch)(int64_t rows, int64_t columns);
    /* Reads the whole gradient, on all threads, before the update. NULL: not needed. */
    void (*measure)(const struct tide_trained *trained, const struct tide_factors *factors, void *scratch);
    /* Updates the numbers of a chunk, all `count` that it has, on the calling thread. */
    void (*update)(const struct tide_trained *trained, const struct tide_factors *factors, int64_t chunk,
                   int64_t count);
};

extern const struct tide_cpu_optimizer tide_cpu_adamw, tide_cpu_adamw8, tide_cpu_adafactor, tide_cpu_sgd;

/* Returns the row of an optimizer. Every one has a row. */
const struct tide_cpu_optimizer *tide_cpu_optimizer(const struct tide_optimizer *optimizer);

/* Bytes of scratch for updating a parameter. */
size_t tide_optimizer_scratch(const struct tide_optimizer *optimizer, int64_t rows, int64_t columns);

/* Updates a whole parameter, on all threads. scratch: that many bytes, aligned. */
void tide_optimizer_update(const struct tide_optimizer *optimizer, const struct tide_trained *trained,
                           const struct tide_factors *factors, void *scratch);

/* The sum of squares of numbers in f32 or bf16, on this thread; and on all. */
double tide_squares(const void *numbers, enum tide_dtype dtype, int64_t count);
double tide_update_squares(const void *numbers, enum tide_dtype dtype, int64_t count);

#endif
