/*
 * fuzz_plan_config.c - any bytes as a model's configuration, and a plan of what comes out.
 */
#include "plan/forecast.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tide_forecast forecast;
    struct tide_job job;
    struct tide_err err;
    tide_job_init(&job);
    if (tide_model_parse((const char *)data, size, &job.model, &err))
        return 0;
    if (job.model.layers > 24)
        return 0; /* as any other, and slower */
    job.task = size % 2 ? TIDE_TASK_PRETRAIN : TIDE_TASK_INFER;
    job.eager = size % 3 == 0 && job.model.family != TIDE_FAMILY_RESNET;
    job.sequence = tide_job_sequence(&job, 0);
    tide_forecast_make(&job, TIDE_POOLED, &forecast, &err);
    return 0;
}
