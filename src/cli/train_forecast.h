/*
 * train_forecast.h - the exact layout of a run of `tidemark train` in the terms of `tidemark plan`: bytes by
 * owner at the peak of every phase.
 */
#ifndef TIDE_TRAIN_FORECAST_H
#define TIDE_TRAIN_FORECAST_H

#include "plan/forecast.h"
#include "train/trainer.h"

/* Reads the words of `tidemark train` and plans that run; takes none of its memory. 1: the command should end
 * with *ret_exit, what was wrong is said. Caller frees the trainer. In cmd_train.c. */
int tide_train_open(int argc, char **argv, struct tide_trainer **ret_trainer, int *ret_exit);

int tide_train_forecast(const struct tide_trainer *trainer, struct tide_job *ret_job,
                        struct tide_forecast *ret_forecast, struct tide_err *err);

#endif
