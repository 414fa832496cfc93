/*
 * forecast.h - the memory of a job, before it runs: bytes by owner, when each lives, the peak and its moment.
 *
 * The job's steps are run on a tape (tape.h), two or three of them, as a program would run them, with
 * PyTorch's allocator under them: the first step is not like the others, because the optimizer's state is
 * made at its end.
 */
#ifndef TIDE_FORECAST_H
#define TIDE_FORECAST_H

#include "plan/job.h"
#include "plan/tape.h"

struct tide_forecast {
    int64_t parameters, trainable;
    int64_t allocated; /* the peak of what tensors take */
    int64_t reserved;  /* what the allocator has from the driver by then */
    int64_t device;    /* everything: context, libraries, reserved */
    int64_t context;   /* device less reserved */
    int peak;          /* the phase of the peak */
    struct tide_plan_phase phases[TIDE_PHASES_MOST];
    int phase_count;
    int64_t owned[TIDE_PARTS]; /* at the peak */
    struct tide_census census; /* at the peak, by owner and layer */
};

/* How much is wanted: sizes alone, for searching; with the allocator's pools; and with the third step, the
 * census and what the device needs. */
enum tide_detail { TIDE_ROUGH, TIDE_POOLED, TIDE_FULL };
int tide_forecast_make(const struct tide_job *job, enum tide_detail detail,
                       struct tide_forecast *ret_forecast, struct tide_err *err);

const char *tide_part_name(enum tide_part owner);

#endif
