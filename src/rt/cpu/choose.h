/*
 * choose.h - one token by the logits of all of them.
 *
 * No memory is taken, and none is needed beside the logits: weights are computed where they are used, sixteen
 * at a time. Which tokens top-k and top-p leave is found by selection, not by sorting.
 */
#ifndef TIDE_CHOOSE_H
#define TIDE_CHOOSE_H

#include "base/err.h"

#include <stdint.h>

struct tide_sample_rule {
    double temperature; /* 0: the likeliest */
    int64_t top_k;      /* of the k likeliest; 0: of all */
    double top_p;       /* of the fewest that have this share, after top_k; 1: of all */
    uint64_t seed;
};

/* 0, or -1 with a sentence: a temperature below 0, a share outside (0, 1], no number. */
int tide_sample_rule_check(const struct tide_sample_rule *rule, struct tide_err *err);

/* One of `count` tokens by their logits. draw: uniform in [0, 1). Equal logits: the lower token counts as the
 * likelier. ret_log_probability, if not NULL: of that token, of all tokens at the temperature (at 0: at 1),
 * whatever top_k and top_p leave: what a policy gradient calls the policy. -1: a logit is not a number. */
int64_t tide_sample_choose(const float *logits, int64_t count, const struct tide_sample_rule *rule,
                           double draw, float *ret_log_probability);

#endif
