/*
 * cmd_train.h - the commands of `tidemark train`, one per task, and what other commands ask of them.
 */
#ifndef TIDE_CMD_TRAIN_H
#define TIDE_CMD_TRAIN_H

#include "cli/train_loop.h"

extern const struct tide_command tide_train_lm, tide_train_grpo, tide_train_selfplay;

/* What they run: makes the task, and trains it. */
int tide_train_main(struct tide_command_call *call, struct tide_err *err);

/* Reads the words of `tidemark train` and plans that run; takes none of its memory. 1: help was asked for,
 * and printed. Caller frees the trainer. */
int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, struct tide_err *err);

#endif
