/*
 * plan_text.h - forecasts and explanations for people, and as one JSON document (schema tidemark.plan/1).
 */
#ifndef TIDE_PLAN_TEXT_H
#define TIDE_PLAN_TEXT_H

#include "plan/explain.h"

#include <stdio.h>

/* What fits into a device. */
struct tide_capacity {
    int64_t device_bytes; /* 0: nobody asked */
    bool fits;
    int64_t batch, sequence; /* the largest, and the longest with the job's batch, that do; 0: none does */
};

/* Searches; job must be one that can be planned. */
struct tide_capacity tide_capacity_find(const struct tide_job *job, const struct tide_forecast *forecast,
                                        int64_t device_bytes);

void tide_forecast_print(const struct tide_job *job, const struct tide_forecast *forecast,
                         const struct tide_capacity *room, FILE *out);
void tide_explanations_print(const struct tide_job *job, const struct tide_evidence *evidence,
                             const struct tide_explanations *found, FILE *out);

/* found NULL: nobody asked. */
void tide_plan_json(const struct tide_job *job, const struct tide_forecast *forecast,
                    const struct tide_capacity *room, const struct tide_evidence *evidence,
                    const struct tide_explanations *found, FILE *out);

/* Such a document, read back: totals, parts and phases. host: the job runs on the processor. */
int tide_plan_read(const char *path, struct tide_forecast *ret_forecast, bool *ret_host,
                   struct tide_err *err);

/* "gpt2, grpo, 8 x 174, bf16, adamw". */
void tide_job_text(const struct tide_job *job, char *out, size_t size);

#endif
