/*
 * answer.h - a recording opened for an answer: its history and the verdict on it, in one go.
 */
#ifndef TIDE_ANSWER_H
#define TIDE_ANSWER_H

#include "assess/assessment.h"

struct tide_answer {
    struct tide_history *history;
    struct tide_assessment *assessment;
};

/* On success the caller releases it. */
int tide_answer_init(struct tide_answer *answer, const char *path, const struct tide_assess_options *options,
                     struct tide_err *err);
void tide_answer_release(struct tide_answer *answer);

#endif
