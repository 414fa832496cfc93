/*
 * grpo.h - the task of `tidemark train grpo`: a language model learns from rewards for what it writes.
 *
 * In a step, the model writes a group of completions for each of some prompts (rollout.h), the reward command
 * or function scores them (rewards.h), and the model is updated by the rewards (policy.h has the algorithm).
 * Each of these is a phase; they never overlap and share the arena. Plans assume the longest sequences: the
 * longest prompt with all the new tokens.
 *
 * The reference of the KL term is the model without its adapters. If the whole model trains, it is the
 * weights that the run began with, streamed from their file (streamed.h).
 */
#ifndef TIDE_GRPO_H
#define TIDE_GRPO_H

#include "train/language.h"
#include "train/policy.h"
#include "train/task.h"

/* Settings that were not given are TIDE_NOT_GIVEN or NULL. */
struct tide_grpo_settings {
    int64_t prompts;     /* per step */
    int64_t micro_batch; /* sequences per pass, and of the decoder */
    int64_t top_k;
    double top_p;
    struct tide_policy_rule rule;
    const char *loss, *scale_rewards, *kl; /* names of policy.h; they decide what the rule says of them */
    char reference[TIDE_LANGUAGE_PATH];    /* the weights that the run began with; "": not needed */
    int64_t reference_sum;                 /* their checksum (streamed.h) */
};

extern const struct tide_setting tide_grpo_settings[];

struct tide_grpo_options {
    struct tide_grpo_settings settings;
    struct tide_language_options language;
    const char *model;     /* directory of a model to begin with; NULL: new weights */
    const char *tokenizer; /* for new weights, and for models that have none; NULL: none */
    const char *prompts;   /* NULL: sums */
    const char *reward;    /* a command; NULL: for sums, 1 for the right answer */
    const char *stop; /* text of the token that ends a completion; NULL: the tokenizer's, or a line's end */
    int64_t reward_timeout_ms;
    const char *out;                              /* where the reference may be kept; NULL: an unnamed file */
    void (*say)(void *context, const char *line); /* gets what the reward command says; NULL: nobody does */
};

/* NULL: out of memory. The trainer that gets the task frees it. */
struct tide_task *tide_grpo_new(const struct tide_grpo_options *options);

#endif
