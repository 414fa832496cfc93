/*
 * train_loop.h - what all tasks of `tidemark train` share: the options and the loop.
 *
 * The loop runs steps, and between them reports, evaluations and checkpoints when they are due. The first
 * SIGINT, SIGTERM or SIGHUP ends the loop after the current step, saves and exits; the second kills.
 */
#ifndef TIDE_TRAIN_LOOP_H
#define TIDE_TRAIN_LOOP_H

#include "cli/command.h"
#include "train/trainer.h"

/* Makes the task that a command's values describe. NULL with an error; an empty one: out of memory. */
typedef struct tide_task *tide_train_make(void *values, struct tide_err *err);

/* Values of the shared options: the first member of a command's own. */
struct tide_train_values {
    tide_train_make *make;
    struct tide_train_options train;
    int64_t eval_every, sample_every, save_every, report_every;
    bool json, debug_memory, verbose;
};

extern const struct tide_option tide_train_shared[];

/* The defaults. */
void tide_train_values_init(struct tide_train_values *values, tide_train_make *make);

extern const struct tide_command tide_train_lm, tide_train_grpo, tide_train_selfplay;

/* The main function of every task: makes it, plans the run and, without --dry-run, trains. Returns the exit
 * code, or -1. */
int tide_train_main(struct tide_command_call *call, struct tide_err *err);

/* Parses the arguments of `tidemark train` and plans that run without taking its memory. Returns 1 if help
 * was asked for and printed. Caller frees the trainer. */
int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, struct tide_err *err);

#endif
