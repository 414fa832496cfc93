/*
 * schedule.h - in what order instructions run, and how long each value lives.
 *
 * Turns a graph and a few choices into a list of instructions over values. A value is memory with a lifetime:
 * an activation, a recomputed activation, a gradient, scratch, a streamed parameter while it is read. Other
 * parameters, inputs and states are not values: they live as long as the machine (machine.h). The choices
 * change memory and time, never a bit of the result:
 *
 * - recompute: the backward pass recomputes the first `recompute` blocks instead of keeping them;
 * - fused: a parameter is updated as soon as its gradient is complete, and the gradient is dropped. To clip
 *   by the global norm, the backward pass runs twice, the first time only for the norm. The gradient of a
 *   parameter that the loss itself uses (a tied head) is complete after the first pass and is kept;
 * - recompute_logits: how much of what the loss could keep from its forward pass is recomputed instead.
 */
#ifndef TIDE_SCHEDULE_H
#define TIDE_SCHEDULE_H

#include "rt/device.h"

struct tide_choices {
    int recompute;        /* blocks */
    bool fused;           /* needs one micro-batch per step */
    bool clips;           /* the global norm is wanted before the first update */
    int recompute_logits; /* quarters */
};

enum tide_value_kind {
    TIDE_VALUE_ACTIVATION,
    TIDE_VALUE_RECOMPUTED,
    TIDE_VALUE_GRADIENT,
    TIDE_VALUE_PARAMETER_GRADIENT,
    TIDE_VALUE_SCRATCH,
    TIDE_VALUE_WINDOW, /* a streamed parameter */
};

struct tide_value {
    enum tide_value_kind kind;
    int tensor; /* -1 for scratch */
    size_t bytes;
    int first, last; /* instructions, both included */
    size_t offset;   /* layout.h */
};

/* The parts of a training step, for measuring each; and all programs that do not train. */
enum tide_phase {
    TIDE_PHASE_FORWARD,
    TIDE_PHASE_BACKWARD, /* includes the loss and what is recomputed */
    TIDE_PHASE_UPDATE,
    TIDE_PHASE_EVALUATION,
    TIDE_PHASES,
};

static inline enum tide_phase tide_phase_of(enum tide_action action)
{
    return action == TIDE_RUN      ? TIDE_PHASE_FORWARD
           : action == TIDE_UPDATE ? TIDE_PHASE_UPDATE
                                   : TIDE_PHASE_BACKWARD;
}

enum {
    TIDE_NONE = -1,
    TIDE_LASTING = -2
}; /* in place of a value: nothing; the tensor's own memory (or a parameter's gradient, if not fused) */

enum { TIDE_VALUES = 2 * TIDE_OPERANDS + 2 * TIDE_OUTPUTS + 1 };

struct tide_instruction {
    enum tide_action action;
    int node;      /* -1: none */
    int tensor;    /* of MEASURE, UPDATE and LOAD; of COPY: whose gradient */
    unsigned adds; /* operands */
    union {
        struct {
            int in[TIDE_OPERANDS], out[TIDE_OUTPUTS], in_grad[TIDE_OPERANDS], out_grad[TIDE_OUTPUTS], scratch;
        };
        int values[TIDE_VALUES]; /* all of these */
    };
};

struct tide_schedule {
    struct tide_instruction *instructions;
    int count;
    struct tide_value *values;
    int value_count;
    size_t capacity, value_capacity;
    double work; /* floating-point operations of one pass, with recomputed ones */
};

/* Makes the schedule of a program. One that trains: one micro-batch up to the gradients, with updates if
 * fused; only gradients on the way to a parameter that trains exist. Any other: forward only, ignores the
 * choices. Caller releases. */
int tide_schedule(const struct tide_graph *graph, int program, const struct tide_device *device,
                  const struct tide_choices *choices, struct tide_schedule *ret_schedule,
                  struct tide_err *err);

void tide_schedule_release(struct tide_schedule *schedule);

#endif
