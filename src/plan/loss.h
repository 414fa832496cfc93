/*
 * loss.h - from a batch to the loss, as in common training loops: which of a model's outputs are made, and
 * how long Python holds them.
 */
#ifndef TIDE_LOSS_H
#define TIDE_LOSS_H

#include "plan/job.h"
#include "plan/net.h"

struct tide_batch {
    struct tide_sized in;
    /* What a loop variable holds until it is assigned again: logits, and (a mistake) their fp32 copy. */
    struct tide_sized held, held_wide;
};

/* A forward pass over `rows` new tokens of each sequence. */
struct tide_net_call tide_loss_call(const struct tide_job *job, int64_t rows);

/* One forward pass and its loss. Frees what is not held. */
struct tide_sized tide_loss(struct tide_tape *tape, const struct tide_job *job, struct tide_net *net,
                            struct tide_batch *batch);

/* log_softmax(logits[:, :-1].float()).gather(...): what GRPO needs from a model. */
struct tide_sized tide_loss_log_probabilities(struct tide_tape *tape, const struct tide_job *job,
                                              struct tide_net *net, struct tide_sized in);

#endif
