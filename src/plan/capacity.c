/*
 * capacity.c - the largest batch and the longest sequence that fit on a device.
 *
 * A job fits if a run of it on a device of that size never runs out: before it fails, the allocator gives
 * free segments back. The bytes in tensors grow with both values, so bisection gives an upper bound. What the
 * allocator needs for them does not always grow, because a larger batch may cut the segments better. So from
 * the bound every value is planned, downward, until one fits: nothing above it does.
 */
#include "plan/plan_text.h"

#include <stdlib.h>

/* The search plans so many values before it doubles its stride. */
enum { VALUE_MOST = 1 << 24, PLANS_A_STRIDE = 128 };

struct room {
    struct tide_job job;
    int64_t *field;                 /* of the job: what is sought */
    struct tide_forecast *forecast; /* scratch; large */
};

static bool plan(struct room *room, int64_t value, enum tide_detail detail)
{
    struct tide_err err;
    *room->field = value;
    return !tide_forecast_make(&room->job, detail, room->forecast, &err);
}

/* True if the bytes in tensors fit. */
static bool tensors_fit(struct room *room, int64_t value)
{
    const struct tide_forecast *f = room->forecast;
    return plan(room, value, TIDE_ROUGH) && f->allocated + f->context <= room->job.device_bytes;
}

/* A full plan has one step more than a pooled one, which recognises most of what does not fit. */
static bool fits(struct room *room, int64_t value)
{
    const struct tide_forecast *f = room->forecast;
    return plan(room, value, TIDE_POOLED) && f->device <= room->job.device_bytes &&
           plan(room, value, TIDE_FULL) && f->device <= room->job.device_bytes;
}

/* Returns the largest value below `high` that passes, if `low` does and `high` does not. */
static int64_t bisect(struct room *room, bool (*passes)(struct room *, int64_t), int64_t low, int64_t high)
{
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (passes(room, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the largest value from least to most with which the bytes in tensors fit; 0: none. */
static int64_t upper_bound(struct room *room, int64_t least, int64_t most)
{
    int64_t low = 0, value = least;
    for (; value <= most && tensors_fit(room, value); value *= 2)
        low = value;
    return low ? bisect(room, tensors_fit, low, value <= most ? value : most + 1) : 0;
}

/* Returns the largest value from least to most with which the job fits; 0: none. `known` fits; 0: none is
 * known to. */
static int64_t largest(struct room *room, int64_t least, int64_t most, int64_t known)
{
    int64_t bound = upper_bound(room, least, most), low = known >= least ? known : least - 1, stride = 1;
    int64_t value = bound;
    for (int plans = 1; value > low && !fits(room, value); plans++) {
        stride *= plans % PLANS_A_STRIDE ? 1 : 2;
        value -= stride;
    }
    low = bisect(room, fits, value > low ? value : low, value < bound ? value + stride : bound + 1);
    return low < least ? 0 : low;
}

struct tide_capacity tide_capacity_find(const struct tide_job *job, int64_t device_bytes)
{
    struct tide_capacity found = {.device_bytes = device_bytes};
    struct room room = {.job = *job, .forecast = malloc(sizeof *room.forecast)};
    if (!room.forecast)
        return found;
    room.job.device_bytes = device_bytes;
    room.field = &room.job.batch;
    found.fits = fits(&room, job->batch);
    found.batch = largest(&room, 1, VALUE_MOST, found.fits ? job->batch : 0);
    room.job.batch = job->batch;
    if (!tide_model_sees(&job->model)) {
        bool infers = job->task == TIDE_TASK_INFER;
        int64_t most = job->model.positions - (infers ? job->generate : 0);
        most = most < job->sequence ? job->sequence : most < VALUE_MOST ? most : VALUE_MOST;
        room.field = &room.job.sequence;
        found.sequence = largest(&room, infers ? 1 : job->generate + 1, most, found.fits ? job->sequence : 0);
    }
    free(room.forecast);
    return found;
}
