/*
 * update.h - what happens to parameters: squares for the norm, and AdamW with decoupled decay.
 *
 * Sums run over stretches of fixed length in f64, so that they do not depend on the number of threads.
 */
#ifndef TIDE_UPDATE_H
#define TIDE_UPDATE_H

#include "rt/optimizer.h"

/* Of numbers in f32 or bf16, on this thread; and on all. */
double tide_squares(const void *numbers, enum tide_dtype dtype, int64_t count);
double tide_update_squares(const void *numbers, enum tide_dtype dtype, int64_t count);

/* On this thread. */
void tide_update_stretch(float *weight, float *m, float *v, const float *gradient, int64_t count,
                         const struct tide_factors *factors);

/* On all. */
void tide_update_adamw(float *weight, float *m, float *v, const float *gradient, int64_t count,
                       const struct tide_optimizer_step *how);

#endif
