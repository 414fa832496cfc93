/*
 * reward_process.h - the process of a command that gives rewards, and its three pipes. See rewards.h.
 *
 * tide_reward_process_start -> _check and _ask -> _free. After a fault it is put down, and what is asked of
 * it later is refused.
 */
#ifndef TIDE_REWARD_PROCESS_H
#define TIDE_REWARD_PROCESS_H

#include "train/rewards.h"

struct tide_reward_process;

int tide_reward_process_start(const struct tide_reward_command *how, struct tide_reward_process **ret_process,
                              struct tide_err *err);
void tide_reward_process_free(struct tide_reward_process *process);

size_t tide_reward_process_bytes(const struct tide_reward_process *process);

int tide_reward_process_check(struct tide_reward_process *process, struct tide_err *err);
int tide_reward_process_ask(struct tide_reward_process *process, const struct tide_prompt *prompt,
                            const struct tide_completion_text *completions, int64_t count, float *ret_rewards,
                            struct tide_err *err);

#endif
