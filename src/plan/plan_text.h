/*
 * plan_text.h - forecasts and explanations for people, and as one JSON document (schema tidemark.plan/1).
 */
#ifndef TIDE_PLAN_TEXT_H
#define TIDE_PLAN_TEXT_H

#include "plan/explain.h"

#include <stdio.h>

/* What fits on a device. A job fits if it never runs out there. Its forecast may need more than the device
 * has, because that allocator had no need to give free segments back. */
struct tide_capacity {
    int64_t device_bytes; /* 0: not asked for */
    bool fits;
    int64_t batch, sequence; /* largest batch, and longest sequence with the job's batch; 0: none fits */
};

/* Searches for the capacity. The job must be one that can be planned. The largest batch does not depend on
 * the job's own, except where it is more than a hundred below what the tensors alone would allow. */
struct tide_capacity tide_capacity_find(const struct tide_job *job, int64_t device_bytes);

void tide_forecast_print(const struct tide_job *job, const struct tide_forecast *forecast,
                         const struct tide_capacity *room, FILE *out);
void tide_explanations_print(const struct tide_job *job, const struct tide_evidence *evidence,
                             const struct tide_explanations *found, FILE *out);

/* found NULL: no explanation was asked for. */
void tide_plan_json(const struct tide_job *job, const struct tide_forecast *forecast,
                    const struct tide_capacity *room, const struct tide_evidence *evidence,
                    const struct tide_explanations *found, FILE *out);

/* Reads such a document back: totals, parts and phases. *ret_host: the job runs on the processor. */
int tide_plan_read(const char *path, struct tide_forecast *ret_forecast, bool *ret_host,
                   struct tide_err *err);

/* "gpt2, grpo, 8 x 174, bf16, adamw". */
void tide_job_text(const struct tide_job *job, char *out, size_t size);

#endif
