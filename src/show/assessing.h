/*
 * assessing.h - one assessment of a recording in progress: what assess.c (which series there are) and worst.c
 * (which of them is the answer) share. Nothing else includes it.
 */
#ifndef TIDE_ASSESSING_H
#define TIDE_ASSESSING_H

#include "show/assess.h"
#include "show/axis.h"

struct tide_assessing {
    const struct tide_history *h;
    const struct tide_assess_options *options;
    struct tide_assessment *a;
    struct tide_arena *arena;
    struct tide_axis axis;
    struct tide_span *spans;
    size_t span_count;
    double *epochs;
    size_t epoch_count;
    int64_t *bucket_ns; /* when each bucket begins; one more for the end */
    double *bucket_x;   /* NAN: before the first step */
    size_t buckets;
    double tree_now; /* counted bytes at the end */
    struct tide_err *err;
};

/* NULL when there is none of that id. Borrowed. */
const struct tide_history_process *tide_assessing_process(const struct tide_history *history, int64_t id);

/* When a process ended, or the end of the recording. */
int64_t tide_assessing_end(const struct tide_assessing *s, const struct tide_history_process *process);

/* Puts the worst first. */
void tide_assessing_rank(struct tide_assessment *assessment);

/* Fills `others` and `evidence`, once ranked. */
void tide_assessing_describe(struct tide_assessing *s);

#endif
