/*
 * against_text.h - a recording compared with a plan, as text and as the JSON document "tidemark.against/1".
 */
#ifndef TIDE_AGAINST_TEXT_H
#define TIDE_AGAINST_TEXT_H

#include "plan/forecast.h"

#include <stdio.h>

/* Reads the recording, compares it with the plan (assess/plan_compared.h) and prints. */
int tide_against(const struct tide_job *job, const struct tide_forecast *forecast, const char *path,
                 bool json, FILE *out, struct tide_err *err);

#endif
