/*
 * spikes.h - what rises above the floor and comes back.
 */
#ifndef TIDE_SPIKES_H
#define TIDE_SPIKES_H

#include "judge/floor.h"

/* Spikes behind warm_x, the last place of the floor that is warm-up (-INFINITY: none is), that were seen to
 * rise. start_x: the first place that is not; level: typical bytes of the floor. -1: no memory. */
int tide_spikes_find(const struct tide_judge_input *input, const struct tide_moments *moments,
                     const struct tide_floor *floor, double warm_x, double start_x, double level,
                     struct tide_arena *scratch, struct tide_spikes *ret);

#endif
