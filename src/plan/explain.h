/*
 * explain.h - which mistake makes a job need what it was seen to need.
 *
 * Every mistake that the job could have (a wrong dtype, a graph held too long, ...) is planned, singly and in
 * pairs, and compared with the measured bytes. What fits is ranked by how near it comes and by how common the
 * mistake is; a count that was fitted (so many graphs) pays for the freedom. What is known besides (the step
 * at which the job died, what it grows per step) weighs in. Every plan is one of as many steps as the run
 * had: what needs more of them is not an explanation.
 */
#ifndef TIDE_EXPLAIN_H
#define TIDE_EXPLAIN_H

#include "plan/forecast.h"

struct tide_evidence {
    int64_t bytes;    /* measured */
    bool device;      /* of the whole device, not of the allocator */
    int64_t fails_at; /* the step at which it died, 0: not known */
    int64_t steps;    /* that it had, the last included, 0: not known */
    int64_t per_step; /* bytes of growth, 0: not known */
};

enum { TIDE_EXPLANATIONS = 5, TIDE_WHAT = 240 };

struct tide_explanation {
    char what[TIDE_WHAT];
    char keys[64];   /* of its mistakes, with a plus between: "graphs+dtype" */
    int64_t bytes;   /* planned with the mistake in it */
    double distance; /* from the measured, as a share */
    double score;    /* higher is likelier */
    int64_t amount;  /* the count that was fitted, 0: none */
    int64_t passes;  /* forward passes that each step must have had for it, 0: no more than the job says */
    bool grows;      /* step by step; not where one step may have made all of the count */
    struct tide_plan_phase phases[TIDE_PHASES_MOST];
    int phase_count;
};

struct tide_explanations {
    struct tide_forecast right; /* without a mistake */
    int64_t naive;              /* weights and one tensor of logits: what is often taken for the whole */
    double right_distance;      /* of a correct run, relative: +0.02 is 2 % above what was measured */
    bool innocent;              /* the job needs that much without any mistake */
    struct tide_explanation list[TIDE_EXPLANATIONS]; /* likeliest first */
    int count;                                       /* 0: nothing fits */
    char test[256]; /* the one measurement that tells the first two apart; "": there are no two */
};

int tide_explain(const struct tide_job *job, const struct tide_evidence *evidence,
                 struct tide_explanations *ret, struct tide_err *err);

#endif
