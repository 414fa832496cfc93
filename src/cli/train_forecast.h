/*
 * train_forecast.h - the exact layout of a run of `tidemark train` in the terms of `tidemark plan`: bytes by
 * owner at the peak of every phase.
 */
#ifndef TIDE_TRAIN_FORECAST_H
#define TIDE_TRAIN_FORECAST_H

#include "plan/forecast.h"
#include "train/trainer.h"

int tide_train_forecast(const struct tide_trainer *trainer, struct tide_job *ret_job,
                        struct tide_forecast *ret_forecast, struct tide_err *err);

#endif
