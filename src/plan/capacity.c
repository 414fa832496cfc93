/*
 * capacity.c - the largest batch and the longest sequence that fit on a device. Memory grows with both, so
 * bisection finds them.
 */
#include "plan/plan_text.h"

#include <stdlib.h>

enum { BATCH_MOST = 1 << 16, SEQUENCE_MOST = 1 << 20 };

static bool fits(const struct tide_job *job, int64_t device_bytes)
{
    struct tide_forecast *forecast = malloc(sizeof *forecast);
    struct tide_err err;
    bool good =
        forecast && !tide_forecast_make(job, TIDE_ROUGH, forecast, &err) && forecast->device <= device_bytes;
    free(forecast);
    return good;
}

/* Returns the largest value of *field, up to most, with which the job fits; 0: none. */
static int64_t largest(struct tide_job *job, int64_t *field, int64_t least, int64_t most,
                       int64_t device_bytes)
{
    int64_t low = 0, high = most + 1;
    for (int64_t step = least; step <= most; step *= 2) {
        *field = step;
        if (!fits(job, device_bytes)) {
            high = step;
            break;
        }
        low = step;
    }
    while (low && high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *field = middle;
        if (fits(job, device_bytes))
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct tide_capacity tide_capacity_find(const struct tide_job *job, const struct tide_forecast *forecast,
                                        int64_t device_bytes)
{
    struct tide_capacity room = {.device_bytes = device_bytes, .fits = forecast->device <= device_bytes};
    struct tide_job tried = *job;
    /* The search plans without the allocator's pools; what the pools keep is added in the same proportion. */
    double kept = (double)forecast->device / (double)(forecast->allocated + forecast->context);
    int64_t bytes = (int64_t)((double)device_bytes / (kept > 1 ? kept : 1));
    room.batch = largest(&tried, &tried.batch, 1, BATCH_MOST, bytes);
    tried = *job;
    if (!tide_model_sees(&job->model)) {
        int64_t most = job->model.positions < SEQUENCE_MOST ? job->model.positions : SEQUENCE_MOST;
        if (job->task == TIDE_TASK_INFER)
            most -= job->generate;
        room.sequence = largest(&tried, &tried.sequence, job->generate + 1, most, bytes);
    }
    return room;
}
