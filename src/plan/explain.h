/*
 * explain.h - finds the mistake that makes a job need what was measured.
 *
 * Every mistake that the job could have (a wrong dtype, a graph held too long, ...) is planned, singly and in
 * pairs, and compared with the measured bytes. What fits is ranked by how near it comes and by how common the
 * mistake is; a fitted count (so many graphs) lowers the rank. Every plan has as many steps as the run had: a
 * mistake that needs more steps, or that would have used as much at an earlier one, explains nothing. If the
 * growth per step was measured, only a mistake that grows by as much explains it.
 */
#ifndef TIDE_EXPLAIN_H
#define TIDE_EXPLAIN_H

#include "plan/forecast.h"

struct tide_evidence {
    int64_t bytes;    /* measured */
    bool device;      /* true: of the whole device; false: of the allocator */
    int64_t fails_at; /* the step at which it died, 0: unknown */
    int64_t steps;    /* of the run, the last included, 0: unknown */
    int64_t per_step; /* bytes of growth, 0: unknown */
};

enum { TIDE_EXPLANATIONS = 5, TIDE_WHAT = 240 };

struct tide_explanation {
    char what[TIDE_WHAT];
    char keys[64];   /* of its mistakes, joined by a plus: "graphs+dtype" */
    int64_t bytes;   /* planned with the mistake */
    double distance; /* from the measured bytes, as a share */
    double score;    /* higher is more likely */
    int64_t amount;  /* the fitted count, 0: none */
    double unit;     /* bytes that one more of the count adds */
    int64_t passes;  /* forward passes that each step must have had, 0: no more than the job says */
    bool grows;      /* from step to step; false if one step may have made all of the count */
    struct tide_plan_phase phases[TIDE_PHASES_MOST];
    int phase_count;
};

struct tide_explanations {
    struct tide_forecast right; /* without a mistake */
    int64_t naive;              /* weights and one tensor of logits: often mistaken for the whole */
    double right_distance;      /* of a correct run, relative: +0.02 is 2 % above the measured bytes */
    bool innocent;              /* the job needs this much without any mistake */
    struct tide_explanation list[TIDE_EXPLANATIONS]; /* most likely first */
    int count;                                       /* 0: nothing fits */
    char test[256]; /* a measurement that tells the first two apart; "": there are no two */
};

int tide_explain(const struct tide_job *job, const struct tide_evidence *evidence,
                 struct tide_explanations *ret, struct tide_err *err);

#endif
