/*
 * initial.h - what weights are before the first step.
 */
#ifndef TIDE_INITIAL_H
#define TIDE_INITIAL_H

#include "rt/machine.h"

/* One tensor: numbers near normal with that deviation; 0: all of them `value`. */
int tide_initial_fill(const struct tide_graph *graph, struct tide_machine *machine, int tensor, uint64_t seed,
                      float deviation, float value, struct tide_err *err);

/* GPT-2's way: matrices and tables near normal with deviation 0.02, those that end a residual branch smaller
 * by the square root of their number, biases 0, scales 1. Each number is a function of the seed and its
 * place, whatever the number of threads. Of a machine that is new: its moments are 0 already. */
int tide_initial_weights(const struct tide_graph *graph, struct tide_machine *machine, uint64_t seed,
                         struct tide_err *err);

#endif
