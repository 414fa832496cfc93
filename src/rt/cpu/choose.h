/*
 * choose.h - chooses one token by the logits of all.
 *
 * Allocates nothing and needs no memory besides the logits: weights are computed where they are used, sixteen
 * at a time. Finds the tokens that top-k and top-p keep by selection, not by sorting.
 */
#ifndef TIDE_CHOOSE_H
#define TIDE_CHOOSE_H

#include "base/err.h"

#include <stdint.h>

struct tide_sample_rule {
    double temperature; /* 0: take the likeliest */
    int64_t top_k;      /* keep the k likeliest; 0: all */
    double top_p;       /* after top_k, keep the fewest with this share of probability; 1: all */
    uint64_t seed;
};

/* Returns 0, or -1 with a sentence: a temperature below 0, a share outside (0, 1], or a NaN. */
int tide_sample_rule_check(const struct tide_sample_rule *rule, struct tide_err *err);

/* Chooses one of `count` tokens by their logits. draw: uniform in [0, 1). Of equal logits the lower token
 * counts as likelier. ret_log_probability, if not NULL: the token's log-probability among all tokens at the
 * temperature (at 0: at 1), whatever top_k and top_p keep: the policy of a policy gradient. -1: a logit is
 * NaN. */
int64_t tide_sample_choose(const float *logits, int64_t count, const struct tide_sample_rule *rule,
                           double draw, float *ret_log_probability);

#endif
