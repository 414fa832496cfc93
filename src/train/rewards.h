/*
 * rewards.h - what a model's answers are worth: by a command, or by sums that are checked here.
 *
 * A command is started once, by `sh -c`. For each group it gets one line, a JSON object with the fields of
 * the prompt's line and the completions, and answers with one line, in the same order:
 *
 *     {"prompt": "07+85=", "answer": 92, "completions": ["092\n", "91\n"]}
 *     [1, 0]                                                  or {"rewards": [1, 0]}
 *
 * Bytes of completions that are not UTF-8 are U+FFFD, each. What the command writes to its standard error is
 * given to `say`, line by line. A command that cannot be started, dies, is late, closes its input or output,
 * or answers with anything but one finite number for each completion is killed, with an error that says why;
 * it is not started again. While it computes nothing else waits: both directions are served as they come.
 *
 * The command leads a process group of its own: keys of the terminal do not reach it. When the rewarder is
 * freed, its input ends; two seconds later, or as soon as it has ended, what is left of the group is killed.
 * Other descriptors are not inherited, and no child is left to be waited for. A program that ends without
 * freeing it calls tide_rewards_abandon() first; of one that is killed, a guard in the group, a shell, kills
 * the group.
 *
 * tide_rewarder_command -> _check and _ask -> _free. Memory is taken when it is made, tide_rewarder_bytes()
 * in all, and does not grow. One thread at a time. After a fault what is asked of it is refused.
 */
#ifndef TIDE_REWARDS_H
#define TIDE_REWARDS_H

#include "base/err.h"
#include "train/prompts.h"

#include <stddef.h>
#include <stdint.h>

enum { TIDE_REWARD_TIMEOUT_MS = 60000 };

/* What was generated, borrowed: bytes, as the tokenizer has them. */
struct tide_completion_text {
    const char *bytes;
    size_t len;
};

struct tide_reward_command {
    const char *command;                          /* for the shell */
    int64_t timeout_ms;                           /* for each answer */
    int64_t most;                                 /* completions of one question */
    void (*say)(void *context, const char *line); /* safe to be shown; NULL: nobody listens */
    void *context;
};

struct tide_rewarder;

/* Caller frees. A command that the shell cannot find is noticed when it is asked, or by _check. */
int tide_rewarder_command(const struct tide_reward_command *how, struct tide_rewarder **ret_rewarder,
                          struct tide_err *err);

void tide_rewarder_free(struct tide_rewarder *rewarder);

/* Kills the command that was started last, if it is there, with its group. For a handler of signals. */
void tide_rewards_abandon(void);

size_t tide_rewarder_bytes(const struct tide_rewarder *rewarder);

/* -1 with a sentence if it has died or said something that nobody asked for. Does not wait. */
int tide_rewarder_check(struct tide_rewarder *rewarder, struct tide_err *err);

/* One finite number for each completion. */
int tide_rewarder_ask(struct tide_rewarder *rewarder, const struct tide_prompt *prompt,
                      const struct tide_completion_text *completions, int64_t count, float *ret_rewards,
                      struct tide_err *err);

/* Of sums: 1 for the right answer to "07+85=", less than half for any other: by how many of its symbols are
 * right. */
void tide_rewards_of_sums(const struct tide_prompt *prompt, const struct tide_completion_text *completions,
                          int64_t count, float *ret_rewards);

#endif
