/*
 * forecast.h - the memory of a job, before it runs: bytes by owner, when each lives, the peak and its moment.
 *
 * Two or three steps of the job are run on a tape (tape.h), as a program would run them, over PyTorch's
 * allocator. The first step differs from the others, because the optimizer's state is made at its end.
 */
#ifndef TIDE_FORECAST_H
#define TIDE_FORECAST_H

#include "plan/job.h"
#include "plan/tape.h"

enum { TIDE_STEPS_ALIKE = 3 }; /* this step is like all later ones, unless something grows */

struct tide_forecast {
    int64_t parameters, trainable;
    int64_t allocated; /* the peak of the bytes in tensors */
    int64_t reserved;  /* what the allocator has taken from the driver by then */
    int64_t device;    /* everything: context, libraries, reserved */
    int64_t context;   /* device minus reserved */
    int peak;          /* the phase of the peak */
    struct tide_plan_phase phases[TIDE_PHASES_MOST];
    int phase_count;
    int64_t owned[TIDE_PARTS]; /* at the peak */
    struct tide_census census; /* at the peak, by owner and layer */
};

/* How much is wanted: sizes only, for searching; with the allocator's pools; with the third step, the census
 * and the device's bytes too. */
enum tide_detail { TIDE_ROUGH, TIDE_POOLED, TIDE_FULL };
int tide_forecast_make(const struct tide_job *job, enum tide_detail detail,
                       struct tide_forecast *ret_forecast, struct tide_err *err);

/* False for making the model: loading weights from a file takes other memory, so that it counts for no peak.
 */
bool tide_phase_counts(const struct tide_plan_phase *phase);

const char *tide_part_name(enum tide_part owner);

#endif
