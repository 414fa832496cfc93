/*
 * grpo_private.h - what the two files of grpo.h share: the task, which grpo_settle.c settles and grpo.c runs.
 */
#ifndef TIDE_GRPO_PRIVATE_H
#define TIDE_GRPO_PRIVATE_H

#include "train/data.h"
#include "train/grpo.h"
#include "train/prompts.h"
#include "train/rewards.h"
#include "train/rollout.h"
#include "train/streamed.h"

enum { TIDE_GRPO_QUESTION = 8 }; /* characters of a sum, at most */

/* Numbers of the task. */
enum {
    LOSS,
    REWARD,
    SPREAD,
    KL,
    CLIPPED,
    LENGTH,
    ENDED,
    EQUAL,
    ROLLOUT_SPEED,
    UPDATE_SPEED,
    RATE,
    NORM,
    EXACT,
    NUMBERS
};

enum { ROLLOUT, REWARDS, PROMPTS, TOKENIZER, MEMORY };

struct tide_grpo {
    struct tide_task task;
    struct tide_grpo_options options; /* settings are settled */
    struct tide_task_number numbers[NUMBERS];
    struct tide_task_memory memory[MEMORY];
    struct tide_language language;
    const struct tide_policy_rule *rule; /* of the settings */
    struct tide_sample_rule sampling;
    bool chose_micro_batch;             /* it was not given */
    int32_t end;                        /* -1: none */
    struct tide_data *sums;             /* NULL: prompts come from a file */
    struct tide_vocabulary *vocabulary; /* NULL: that of sums is used */
    struct tide_prompts *prompts;
    struct tide_rewarder *rewarder; /* NULL: rewards of sums */
    struct tide_streamed *streamed; /* NULL: no reference, or it is the model without adapters */
    int reference_fd;               /* of an unnamed file; -1: none */
    int64_t sequences, prompt_most; /* per step; tokens of the longest prompt */
    struct tide_gpt_policy policy;
    struct tide_gpt_decoder decoder;
    struct tide_rollout *rollout;
    /* Of the current step. */
    struct tide_rollout_prompt *asked;  /* prompts */
    struct tide_policy_sequence *made;  /* sequences */
    struct tide_completion_text *texts; /* of a group */
    int32_t *tokens, *prompt_tokens;    /* of all sequences, sequence + 1 each; of all prompts */
    float *logs;                        /* old and reference log-probabilities */
    double *rewards;
    float *advantages, *group_rewards;
    char *text;     /* of a group */
    char *room;     /* all of these are in it */
    size_t longest; /* bytes of a token's text */
    int64_t shown;  /* step whose first completion is in `sample`; 0: none */
    char sample[512];
};

/* The settle function of the task (task.h). */
int tide_grpo_settle(struct tide_task *task, const char *resumed, struct tide_train_settings *train,
                     struct tide_err *err);

#endif
