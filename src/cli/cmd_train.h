/*
 * cmd_train.h - what other commands ask of `tidemark train`.
 */
#ifndef TIDE_CMD_TRAIN_H
#define TIDE_CMD_TRAIN_H

#include "train/trainer.h"

/* Reads the words of `tidemark train` and plans that run; takes none of its memory. 1: the command should end
 * with *ret_exit, what was wrong is said. Caller frees the trainer. */
int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, int *ret_exit);

#endif
