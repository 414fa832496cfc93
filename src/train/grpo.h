/*
 * grpo.h - the task of `tidemark train grpo`: a language model learns from rewards for what it writes.
 *
 * A step: for each of some prompts the model writes a group of completions (rollout.h), the reward command or
 * function values them (rewards.h), and the model is updated by the rewards (policy.h has the algorithm).
 * Each of these is a phase; they never overlap and share the arena. Sequences are planned at their longest:
 * the longest prompt and all the new tokens that there may be.
 *
 * The reference of the KL term is the model without its adapters; where the whole model trains, it is the
 * weights that the run began with, streamed from their file (streamed.h).
 */
#ifndef TIDE_GRPO_H
#define TIDE_GRPO_H

#include "train/language.h"
#include "train/policy.h"
#include "train/task.h"

/* What was not given is TIDE_NOT_GIVEN or NULL. Names are policy.h's. */
struct tide_grpo_settings {
    int64_t prompts, group, new_tokens, epochs; /* prompts: of a step */
    int64_t micro_batch;                        /* sequences of a pass, and of the decoder */
    int64_t top_k;
    double temperature, top_p, epsilon, epsilon_high, beta;
    const char *loss, *scale_rewards, *kl;
    char reference[TIDE_LANGUAGE_PATH]; /* the weights that the run began with; "": not needed */
};

extern const struct tide_setting tide_grpo_settings[];

struct tide_grpo_options {
    struct tide_grpo_settings settings;
    struct tide_language_options language;
    const char *model;     /* a model to begin with: a directory; NULL: first weights */
    const char *tokenizer; /* of first weights; NULL: none */
    const char *prompts;   /* NULL: sums */
    const char *reward;    /* a command; NULL: of sums, 1 for the right answer */
    const char *stop; /* text of the token that ends a completion; NULL: the tokenizer's, or a line's end */
    int64_t reward_timeout_ms;
    const char *out; /* where the reference may be kept; NULL: a file without name */
    void (*say)(void *context, const char *line); /* what the reward command says; NULL: nobody listens */
};

/* NULL: no memory. The task is freed by the trainer that gets it. */
struct tide_task *tide_grpo_new(const struct tide_grpo_options *options);

#endif
