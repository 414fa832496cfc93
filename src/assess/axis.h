/*
 * axis.h - from the time of a recording to the axis it is judged on: steps where the program has told any,
 * else seconds.
 *
 * Steps come from the process that told most of them, or from the output. Counts that start over (an epoch's
 * steps, a resumed run) go on from where they were, so that the axis only goes forward.
 */
#ifndef TIDE_AXIS_H
#define TIDE_AXIS_H

#include "assess/history.h"
#include "base/arena.h"

struct tide_axis {
    bool is_steps;
    size_t told; /* steps, by that process */
    bool bursts; /* there were steps, but in few bursts, as a buffered output tells them: nothing to go by */
    int64_t process;     /* whose steps these are; 0: those of the output */
    const int64_t *t_ns; /* moments at which a step began, in order */
    const double *step;
    size_t count;
    double seconds_per_step; /* 1 when the axis is seconds */
    int64_t begin_ns; /* of an axis of seconds: when the first epoch began, if any did; what was before is not
                         training, and on a busy machine takes as long as that */
    int64_t end_ns;   /* of a program that ended well: when its last step was over, or it gave back its memory
                         for good; what follows is not training */
};

/* Lives in the arena. Needs some steps, spread over some samples; else the axis is seconds. */
int tide_axis_make(const struct tide_history *history, struct tide_arena *arena, struct tide_axis *ret,
                   struct tide_err *err);

/* Where on the axis a time is; NAN before the first step, or epoch, and after the end of the last. */
double tide_axis_at(const struct tide_axis *axis, int64_t t_ns);

#endif
