/*
 * policy.h - group-relative policy optimization (GRPO): from rewards and log-probabilities to the loss of
 * each token. Numbers in, numbers out: nothing here runs a model. Names and meanings are those of TRL 1.x
 * (GRPOConfig); where a name differs, TRL's option is in brackets.
 *
 * One generation: the model writes a group of completions for each prompt. A completion includes its end of
 * text, if it got there. The caller has a reward for each. Then:
 *
 * 1. Advantages. A = reward - mean of its group, divided by (spread + 1e-4). spread is the standard deviation
 *    (of a sample: n - 1) of the rewards of its group or of all groups, by scale_rewards. A group whose
 *    rewards are all equal has advantages of exactly 0.
 *
 * 2. Log-probabilities are those of logits / temperature over the whole vocabulary, even if top-k or top-p
 *    excluded part of it when the token was chosen. A token has three:
 *    - new: of the current model. The head computes it and its gradient.
 *    - old: of the model that wrote the completion.
 *    - reference: of the model that the KL term keeps the new one close to. Only if beta is not 0.
 *
 * 3. The loss of a token: with ratio = exp(new - old),
 *        -min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon_high) A) + beta KL
 *        KL = k3 = exp(reference - new) - (reference - new) - 1, times the ratio, unless plain_kl is set
 *    The ratio times k3 (use_bias_correction_kl, TRL's default) has the gradient of the KL divergence itself,
 *    even if the ratio is 1: there it is new - reference, while plain k3 has 1 - exp(reference - new).
 *
 * 4. The loss of an update is the weighted sum of these over all tokens of all completions. With N
 *    completions, of which this one has n tokens, the weight is:
 *        grpo      1 / (N n)                          each completion counts the same
 *        bnpo      1 / (M tokens of the micro-batch)  each token of one of M micro-batches counts the same
 *        dr_grpo   1 / (N new_tokens)                 a constant: the most tokens that a completion may have
 *        dapo      1 / tokens of all N                each token counts the same (the default)
 *    Only bnpo depends on how completions are divided into micro-batches. (TRL shuffles them first, which
 *    matters only to bnpo.) A completion without tokens adds nothing, and is one of the N.
 *
 * Inner epochs (num_iterations): each is one update with all completions of a generation. In the first epoch
 * the model is still the one that wrote them, so old = new: the ratio is 1 (with its usual slope), nothing is
 * clipped, and no extra pass is needed to compute old. The passes of the first epoch provide it: their
 * log-probabilities are kept for the following epochs (tide_policy_take).
 *
 * A step is:
 *     tide_policy_advantages, tide_policy_weigh
 *     with beta, for each micro-batch: _fill, run the reference, _take
 *     for each epoch:
 *         for each micro-batch: _fill, forward and backward with tide_policy_loss, _count
 *                               in the first of several epochs: _take
 *         update
 */
#ifndef TIDE_POLICY_H
#define TIDE_POLICY_H

#include "base/err.h"
#include "rt/op.h"

enum tide_policy_kind { TIDE_POLICY_GRPO, TIDE_POLICY_BNPO, TIDE_POLICY_DR_GRPO, TIDE_POLICY_DAPO };
enum tide_policy_scale { TIDE_SCALE_GROUP, TIDE_SCALE_BATCH, TIDE_SCALE_NONE };
enum tide_policy_kl { TIDE_KL_CORRECTED, TIDE_KL_PLAIN };

/* Their names, in this order, NULL-terminated. */
extern const char *const tide_policy_kinds[], *const tide_policy_scales[], *const tide_policy_kls[];

struct tide_policy_rule {
    enum tide_policy_kind kind;           /* [loss_type] */
    enum tide_policy_scale scale_rewards; /* what advantages are divided by */
    int64_t group;                        /* completions per prompt: 2 or more [num_generations] */
    int64_t new_tokens;                   /* the most of a completion [max_completion_length] */
    int64_t epochs;                       /* updates per generation [num_iterations] */
    double temperature;
    double epsilon, epsilon_high;
    double beta;   /* 0: no reference is needed */
    bool plain_kl; /* [not use_bias_correction_kl] */
};

/* TRL's defaults, with 256 new tokens. */
extern const struct tide_policy_rule tide_policy_default;

/* 0, or -1 with a sentence. */
int tide_policy_rule_check(const struct tide_policy_rule *rule, struct tide_err *err);

/* Statistics of the rewards of a generation, for the report. */
struct tide_policy_rewards {
    double mean, spread; /* of all of them [reward, reward_std] */
    /* The share of groups whose rewards are all equal and teach nothing. [frac_reward_zero_std, which with
     * scale_rewards=batch looks at all rewards together] */
    double equal_share;
};

/* rewards: finite numbers, group after group. advantages: as many. */
void tide_policy_advantages(const struct tide_policy_rule *rule, const double *rewards, int64_t groups,
                            float *advantages, struct tide_policy_rewards *ret_rewards);

/* A prompt with one completion. */
struct tide_policy_sequence {
    const int32_t *tokens;          /* of the prompt, then of the completion */
    int64_t prompt, completion;     /* how many: 1 or more, and 0 or more */
    float advantage;                /* the caller's, from tide_policy_advantages */
    float weight;                   /* from tide_policy_weigh */
    float *old_log, *reference_log; /* log-probabilities of the completion's tokens, memory for as many; NULL
                                       if there is one epoch, or no beta */
};

/* Sets the weights of all sequences of an update, in micro-batches of `micro_batch` consecutive sequences;
 * the last may have fewer. With these weights, the loss of the update is the mean over its micro-batches, as
 * tide_machine_pass computes it. */
void tide_policy_weigh(const struct tide_policy_rule *rule, struct tide_policy_sequence *sequences,
                       int64_t count, int64_t micro_batch);

/* Numbers that tide_policy_loss takes per row, and for all rows. */
enum {
    TIDE_POLICY_ADVANTAGE,
    TIDE_POLICY_WEIGHT,
    TIDE_POLICY_OLD,
    TIDE_POLICY_REFERENCE,
    TIDE_POLICY_INPUTS
};
enum { TIDE_POLICY_CONSTANTS = 5 };

/* The loss of a row with a target: its weight times the loss above. Summed, not averaged. */
extern const struct tide_row_loss tide_policy_loss;

/* A micro-batch as the model reads it: consecutive sequences. A row reads a token and predicts the next one.
 * A sequence of n tokens has n - 1 rows, or one without a target if n is 1. Rows whose next token belongs to
 * the prompt have no target (-1). */
struct tide_policy_batch {
    int64_t sequences, rows;           /* at most so many, each of at most rows + 1 tokens */
    int32_t *lengths;                  /* (sequences): rows of each; 0: unused */
    int32_t *tokens, *targets;         /* (sequences rows): all sequences consecutively, then padding */
    int32_t *positions;                /* likewise: index of a row in its sequence, from 0 */
    float *inputs[TIDE_POLICY_INPUTS]; /* likewise */
    float *constants;                  /* (TIDE_POLICY_CONSTANTS) */
};

/* Fills a micro-batch with `count` sequences, at most as many as it has. epoch: the inner one, from 0. */
void tide_policy_fill(const struct tide_policy_batch *batch, const struct tide_policy_rule *rule,
                      const struct tide_policy_sequence *sequences, int64_t count, int64_t epoch);

/* Keeps what a run computed for the sequences that filled a micro-batch, as their old log-probabilities or
 * those of the reference. log_probabilities: (sequences rows), in their order. */
void tide_policy_take(const struct tide_policy_sequence *sequences, int64_t count,
                      const float *log_probabilities, bool of_reference);

/* For the report: sums over tokens. Divided by `tokens` they are what TRL logs as kl, clip_ratio/low_mean and
 * clip_ratio/high_mean; the sum of the last two is its clip_ratio/region_mean. Start from zeros. (If
 * micro-batches differ in length, TRL takes the mean of their means.) */
struct tide_policy_sums {
    double kl, clipped_low, clipped_high;
    int64_t tokens;
};

/* Adds the sums of a micro-batch after its pass. */
void tide_policy_count(const struct tide_policy_batch *batch, const float *log_probabilities,
                       struct tide_policy_sums *sums);

#endif
