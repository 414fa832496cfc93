/*
 * doubling.h - a container that grows by a factor.
 *
 * A vector or a hash table that fills at a steady rate is made 1.5 or 2 times as large whenever it is full,
 * so its size rises in ever larger and ever rarer jumps. The judge would take the last jump, half of
 * everything, for a jump or the end of a rise. It is neither. The size before each jump is what the container
 * held then, so these sizes lie on a line over the steps, whose slope is the rate of the leak. Until that
 * line reaches the present size there is no reason for another jump. Pure, as judge.h.
 */
#ifndef TIDE_DOUBLING_H
#define TIDE_DOUBLING_H

#include "judge/judge.h"

struct tide_doubling {
    double factor;                       /* by which it grows: median over the jumps */
    size_t jumps;                        /* that were seen */
    double slope, slope_low, slope_high; /* bytes per step or second that are put in, with a 95 % interval */
};

/* True if the series is that of such a container and it has not stopped filling. The points must be in order
 * of x. Also false if out of memory. */
bool tide_doubling_find(const struct tide_judge_input *input, struct tide_arena *scratch,
                        struct tide_doubling *ret_doubling);

#endif
