/*
 * spikes.h - what rises above the floor and comes back.
 */
#ifndef TIDE_SPIKES_H
#define TIDE_SPIKES_H

#include "judge/floor.h"

/* start_x: where warm-up ends; level: typical bytes of the floor. -1: no memory. */
int tide_spikes_find(const struct tide_judge_input *input, const struct tide_moments *moments,
                     const struct tide_floor *floor, double start_x, double level, struct tide_arena *scratch,
                     struct tide_spikes *ret);

#endif
