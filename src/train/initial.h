/*
 * initial.h - the weights before the first step.
 */
#ifndef TIDE_INITIAL_H
#define TIDE_INITIAL_H

#include "rt/machine.h"

/* Fills one tensor with near-normal numbers of that deviation; 0: all are `value`. */
int tide_initial_fill(const struct tide_graph *graph, struct tide_machine *machine, int tensor, uint64_t seed,
                      float deviation, float value, struct tide_err *err);

/* GPT-2's scheme: matrices and tables near normal with deviation 0.02, those that end a residual branch
 * divided by the square root of their number, biases 0, scales 1. Each number is a function of the seed and
 * its index, whatever the number of threads. For a new machine, whose moments are already 0. */
int tide_initial_weights(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed,
                         struct tide_err *err);

#endif
