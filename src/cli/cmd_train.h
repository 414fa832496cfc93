/*
 * cmd_train.h - the commands of `tidemark train`, one per task, and what other commands ask of them.
 */
#ifndef TIDE_CMD_TRAIN_H
#define TIDE_CMD_TRAIN_H

#include "cli/train_loop.h"

/* Reads the words of a task's command (argv[0]: its name) and makes the task. 1: the command should end with
 * *ret_exit. *ret_task NULL: no memory. */
typedef int tide_train_reader(int argc, char **argv, struct tide_train_values *ret_values,
                              struct tide_task **ret_task, int *ret_exit);

extern const struct tide_command tide_train_lm, tide_train_grpo, tide_train_selfplay;
tide_train_reader tide_train_lm_read, tide_train_grpo_read, tide_train_selfplay_read;

/* Reads the words of `tidemark train` and plans that run; takes none of its memory. 1: the command should end
 * with *ret_exit, what was wrong is said. Caller frees the trainer. */
int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, int *ret_exit);

#endif
