/*
 * train_breakdown.h - what the bytes of a run of `tidemark train` are for, from its schedule and layout.
 *
 * Weights, optimizer, inputs (and gradients, where they are kept) are there all the time. The memory that
 * passes share changes with every instruction; it is reported at its peak, where most is alive.
 */
#ifndef TIDE_TRAIN_BREAKDOWN_H
#define TIDE_TRAIN_BREAKDOWN_H

#include "plan/forecast.h"
#include "train/trainer.h"

enum { TIDE_OWNERS = 8, TIDE_OWNER_NAME = TIDE_TENSOR_NAME + 32 };

struct tide_owner {
    char name[TIDE_OWNER_NAME];
    size_t bytes;
};

struct tide_breakdown {
    /* Their sum is the plan's total. gradients: those kept, and those alive at the peak; head: scratch of the
     * loss, if alive at the peak; activations: the rest of the memory that passes share, gaps included. */
    size_t weights, optimizer, gradients, inputs, activations, head;
    /* The largest tensors in the shared memory at the peak, largest first. */
    struct tide_owner owners[TIDE_OWNERS];
    int owner_count;
    size_t others; /* bytes of all others alive at the peak */
    /* Per phase, the end of the highest byte that its instructions use: the value of tide_machine_used. */
    size_t phases[TIDE_PHASES];
};

extern const char *const tide_train_phases[TIDE_PHASES]; /* names of the phases */

/* For `train`: bytes by kind and by phase, and the largest tensors at the peak. */
int tide_train_breakdown(const struct tide_trainer *trainer, struct tide_breakdown *ret_breakdown,
                         struct tide_err *err);

/* For `plan`, in its terms: bytes by part of the model at the peak of every phase. */
int tide_train_forecast(const struct tide_trainer *trainer, struct tide_job *ret_job,
                        struct tide_forecast *ret_forecast, struct tide_err *err);

#endif
