/*
 * axis.h - maps the time of a recording to the axis it is judged on: steps if the program named any, else
 * seconds.
 *
 * Steps come from the process that named most of them, or from the output. If the output counts several
 * things one after another (cli/stepwords.h), the one that took longest is used. Counts that start over (an
 * epoch's steps, a resumed run) go on from where they were, so that the axis only goes forward.
 */
#ifndef TIDE_AXIS_H
#define TIDE_AXIS_H

#include "assess/history.h"
#include "base/arena.h"

struct tide_axis {
    bool is_steps;
    size_t told;         /* steps named by that process */
    bool bursts;         /* steps came in few bursts, as a buffered output prints them, and cannot be used */
    int64_t process;     /* whose steps these are; 0: those of the output */
    const int64_t *t_ns; /* moments at which a step began, in order */
    const double *step;
    size_t count;
    double seconds_per_step; /* 1 when the axis is seconds */
    int64_t begin_ns; /* axis of seconds: when the first epoch began, if any did, or the first step. What came
                         before is not training, and may take as long as training on a busy machine */
    double rest_s; /* seconds that an ended run went on after its last step, if that is a good part; else 0 */
    bool outgrown; /* memory rose in them by more than in the steps: the axis is seconds, from the first step
                    */
    bool given_back; /* outgrown, and freed again at the end: not surely a leak */
    int64_t end_ns;  /* of a program that ended well: when its last step was over, or it freed its memory for
                        good. What follows is not training */
};

/* The result lives in the arena. The axis is steps only if there are some, spread over some samples. */
int tide_axis_make(const struct tide_history *history, struct tide_arena *arena, struct tide_axis *ret,
                   struct tide_err *err);

/* Returns where on the axis a time is; NAN before the first step or epoch and after the end of the last. */
double tide_axis_at(const struct tide_axis *axis, int64_t t_ns);

#endif
