#include "train/policy.h"
#include "base/check.h"

#include <math.h>
#include <string.h>

const char *const tide_policy_kinds[] = {"grpo", "bnpo", "dr_grpo", "dapo", NULL};
const char *const tide_policy_scales[] = {"group", "batch", "none", NULL};
const char *const tide_policy_kls[] = {"corrected", "plain", NULL};

const struct tide_policy_rule tide_policy_default = {.kind = TIDE_POLICY_DAPO,
                                                     .scale_rewards = TIDE_SCALE_GROUP,
                                                     .group = 8,
                                                     .new_tokens = 256,
                                                     .epochs = 1,
                                                     .temperature = 1,
                                                     .epsilon = 0.2,
                                                     .epsilon_high = 0.2};

int tide_policy_rule_check(const struct tide_policy_rule *rule, struct tide_err *err)
{
    if (rule->group < 2)
        return tide_err_set(err,
                            "a group must have 2 completions or more: they are compared with each other");
    if (rule->new_tokens < 1)
        return tide_err_set(err, "a completion must be allowed 1 token or more");
    if (rule->epochs < 1)
        return tide_err_set(err, "there must be 1 inner epoch or more");
    if (!(rule->temperature > 0 && isfinite(rule->temperature)))
        return tide_err_set(err, "the temperature must be more than 0: completions of a group must differ");
    if (!(rule->epsilon >= 0 && rule->epsilon <= 1))
        return tide_err_set(err, "epsilon must be between 0 and 1");
    if (!(rule->epsilon_high >= 0 && isfinite(rule->epsilon_high)))
        return tide_err_set(err, "the high epsilon must be 0 or more");
    if (!(rule->beta >= 0 && isfinite(rule->beta)))
        return tide_err_set(err, "beta must be 0 (no KL term) or more");
    return 0;
}

/* ---- advantages */

struct spread {
    double mean, deviation;
};

/* Takes differences from the first number, so that equal numbers have a deviation of exactly 0. */
static struct spread spread_of(const double *x, int64_t count)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] - x[0];
    struct spread s = {.mean = x[0] + sum / (double)count};
    for (int64_t i = 0; i < count; i++)
        squares += (x[i] - s.mean) * (x[i] - s.mean);
    s.deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    return s;
}

void tide_policy_advantages(const struct tide_policy_rule *rule, const double *rewards, int64_t groups,
                            float *advantages, struct tide_policy_rewards *ret_rewards)
{
    static const double least_spread = 1e-4;
    TIDE_CHECK(groups, >, 0);
    struct spread all = spread_of(rewards, groups * rule->group);
    int64_t equal = 0;
    for (int64_t first = 0; first < groups * rule->group; first += rule->group) {
        struct spread group = spread_of(rewards + first, rule->group);
        double divisor = rule->scale_rewards == TIDE_SCALE_NONE    ? 1
                         : rule->scale_rewards == TIDE_SCALE_BATCH ? all.deviation + least_spread
                                                                   : group.deviation + least_spread;
        for (int64_t i = first; i < first + rule->group; i++)
            advantages[i] = (float)((rewards[i] - group.mean) / divisor);
        equal += group.deviation == 0;
    }
    *ret_rewards = (struct tide_policy_rewards){
        .mean = all.mean, .spread = all.deviation, .equal_share = (double)equal / (double)groups};
}

/* ---- weights */

static int64_t tokens_of(const struct tide_policy_sequence *sequences, int64_t count)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < count; i++)
        tokens += sequences[i].completion;
    return tokens;
}

void tide_policy_weigh(const struct tide_policy_rule *rule, struct tide_policy_sequence *sequences,
                       int64_t count, int64_t micro_batch)
{
    int64_t micro_batches = (count + micro_batch - 1) / micro_batch, all = tokens_of(sequences, count);
    for (int64_t i = 0; i < count; i++) {
        struct tide_policy_sequence *s = &sequences[i];
        int64_t first = i - i % micro_batch, here = count - first < micro_batch ? count - first : micro_batch;
        double share = 0;
        if (s->completion == 0) {
            s->weight = 0;
            continue;
        }
        switch (rule->kind) {
        case TIDE_POLICY_GRPO:
            share = 1 / ((double)count * (double)s->completion);
            break;
        case TIDE_POLICY_BNPO:
            share = 1 / ((double)micro_batches * (double)tokens_of(sequences + first, here));
            break;
        case TIDE_POLICY_DR_GRPO:
            share = 1 / ((double)count * (double)rule->new_tokens);
            break;
        case TIDE_POLICY_DAPO:
            share = 1 / (double)all;
            break;
        }
        s->weight = (float)(share * (double)micro_batches);
    }
}

/* ---- the loss of a row */

enum { LOW, HIGH, BETA, PLAIN_KL, ON_POLICY }; /* constants */

struct row {
    float ratio, kl, kl_slope;
    bool is_low, is_high; /* clipped: the ratio has no effect */
};

static struct row row_of(float log_probability, const float *inputs, const float *constants)
{
    float advantage = inputs[TIDE_POLICY_ADVANTAGE];
    struct row r = {.ratio = constants[ON_POLICY] != 0 ? 1 : expf(log_probability - inputs[TIDE_POLICY_OLD])};
    r.is_low = r.ratio < constants[LOW] && advantage < 0;
    r.is_high = r.ratio > constants[HIGH] && advantage > 0;
    if (constants[BETA] != 0) {
        float apart = inputs[TIDE_POLICY_REFERENCE] - log_probability, more = expm1f(apart);
        r.kl = more - apart;
        r.kl_slope = -more;
        if (constants[PLAIN_KL] == 0) {
            r.kl_slope = r.ratio * (r.kl + r.kl_slope);
            r.kl *= r.ratio;
        }
    }
    return r;
}

static float loss_of_row(float log_probability, const float *inputs, const float *constants, float *ret_slope)
{
    struct row r = row_of(log_probability, inputs, constants);
    float advantage = inputs[TIDE_POLICY_ADVANTAGE], weight = inputs[TIDE_POLICY_WEIGHT],
          ratio = r.is_low    ? constants[LOW]
                  : r.is_high ? constants[HIGH]
                              : r.ratio;
    float slope = r.is_low || r.is_high ? 0 : -ratio * advantage;
    *ret_slope = weight * (slope + constants[BETA] * r.kl_slope);
    return weight * (-ratio * advantage + constants[BETA] * r.kl);
}

const struct tide_row_loss tide_policy_loss = {.inputs = TIDE_POLICY_INPUTS, .loss = loss_of_row};

/* ---- micro-batches */

static int64_t rows_of(const struct tide_policy_sequence *s)
{
    int64_t rows = s->prompt + s->completion - 1;
    return rows > 0 ? rows : 1;
}

static void fill_sequence(const struct tide_policy_batch *b, int64_t first,
                          const struct tide_policy_sequence *s)
{
    TIDE_CHECK(s->prompt, >=, 1);
    TIDE_CHECK(rows_of(s), <=, b->rows);
    for (int64_t i = 0; i < rows_of(s); i++) {
        int64_t made = i + 1 - s->prompt; /* index of the completion's token after this row's */
        b->tokens[first + i] = s->tokens[i];
        b->positions[first + i] = (int32_t)i;
        if (made < 0 || made >= s->completion)
            continue;
        b->targets[first + i] = s->tokens[i + 1];
        b->inputs[TIDE_POLICY_ADVANTAGE][first + i] = s->advantage;
        b->inputs[TIDE_POLICY_WEIGHT][first + i] = s->weight;
        b->inputs[TIDE_POLICY_OLD][first + i] = s->old_log ? s->old_log[made] : 0;
        b->inputs[TIDE_POLICY_REFERENCE][first + i] = s->reference_log ? s->reference_log[made] : 0;
    }
}

void tide_policy_fill(const struct tide_policy_batch *b, const struct tide_policy_rule *rule,
                      const struct tide_policy_sequence *sequences, int64_t count, int64_t epoch)
{
    int64_t rows = b->sequences * b->rows, first = 0;
    TIDE_CHECK(count, <=, b->sequences);
    memset(b->tokens, 0, (size_t)rows * sizeof *b->tokens);
    memset(b->positions, 0, (size_t)rows * sizeof *b->positions);
    memset(b->lengths, 0, (size_t)b->sequences * sizeof *b->lengths);
    for (int64_t i = 0; i < rows; i++)
        b->targets[i] = -1;
    for (int i = 0; i < TIDE_POLICY_INPUTS; i++)
        memset(b->inputs[i], 0, (size_t)rows * sizeof *b->inputs[i]);
    for (int64_t i = 0; i < count; first += rows_of(&sequences[i++])) {
        b->lengths[i] = (int32_t)rows_of(&sequences[i]);
        fill_sequence(b, first, &sequences[i]);
    }
    b->constants[LOW] = (float)(1 - rule->epsilon);
    b->constants[HIGH] = (float)(1 + rule->epsilon_high);
    b->constants[BETA] = (float)rule->beta;
    b->constants[PLAIN_KL] = rule->plain_kl;
    b->constants[ON_POLICY] = epoch == 0;
}

void tide_policy_take(const struct tide_policy_sequence *sequences, int64_t count,
                      const float *log_probabilities, bool of_reference)
{
    for (int64_t i = 0; i < count; log_probabilities += rows_of(&sequences[i++]))
        memcpy(of_reference ? sequences[i].reference_log : sequences[i].old_log,
               log_probabilities + sequences[i].prompt - 1, (size_t)sequences[i].completion * sizeof(float));
}

void tide_policy_count(const struct tide_policy_batch *b, const float *log_probabilities,
                       struct tide_policy_sums *sums)
{
    for (int64_t i = 0; i < b->sequences * b->rows; i++) {
        float inputs[TIDE_POLICY_INPUTS];
        if (b->targets[i] < 0)
            continue;
        for (int k = 0; k < TIDE_POLICY_INPUTS; k++)
            inputs[k] = b->inputs[k][i];
        struct row r = row_of(log_probabilities[i], inputs, b->constants);
        sums->kl += r.kl;
        sums->clipped_low += r.is_low;
        sums->clipped_high += r.is_high;
        sums->tokens++;
    }
}
