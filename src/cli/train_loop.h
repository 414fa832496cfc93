/*
 * train_loop.h - what `tidemark train` does with a task, whatever it trains: options that every task has, and
 * the loop.
 *
 * Steps, and between them reports, evaluations and checkpoints when they are due. The first SIGINT, SIGTERM
 * or SIGHUP ends the loop after the step that runs, saves and exits; the second kills.
 */
#ifndef TIDE_TRAIN_LOOP_H
#define TIDE_TRAIN_LOOP_H

#include "cli/command.h"
#include "train/trainer.h"

/* The task that the values of a command are for. NULL with a sentence, or without one for lack of memory. */
typedef struct tide_task *tide_train_make(void *values, struct tide_err *err);

/* Values of the shared options: the first member of a command's own. */
struct tide_train_values {
    tide_train_make *make;
    struct tide_train_options train;
    const char *dtype, *weights, *optimizer;
    int64_t eval_every, sample_every, save_every, keep, report_every;
    bool json, dry_run, debug_memory, verbose;
};

extern const struct tide_option tide_train_shared[];

/* The defaults. */
void tide_train_values_init(struct tide_train_values *values, tide_train_make *make);

/* Once options are read: fills in of `train` what they give as words. */
void tide_train_settle(struct tide_train_values *values);

/* Plans, and unless that is all that is wanted trains. The task is freed. Returns the exit code, or -1. */
int tide_train_run(const struct tide_train_values *values, struct tide_task *task, struct tide_err *err);

/* ---- cmd_train.c and its tasks */

extern const struct tide_command tide_train_lm, tide_train_grpo, tide_train_selfplay;

/* What they run: makes the task, and trains it. */
int tide_train_main(struct tide_command_call *call, struct tide_err *err);

/* Reads the words of `tidemark train` and plans that run; takes none of its memory. 1: help was asked for,
 * and printed. Caller frees the trainer. */
int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, struct tide_err *err);

#endif
