/*
 * op_head.h - the operands of the head and the loss of a row, for the references and the kernels. Logits have
 * the first two operands.
 */
#ifndef TIDE_OP_HEAD_H
#define TIDE_OP_HEAD_H

#include "rt/op.h"

enum { X, TABLE, TARGETS, INPUTS };
enum { ROWS, TOKENS, CONSTANTS }; /* numbers of the node; constants: 1 if there are any */
enum { LOSS, LOG_PROBABILITIES };

static inline float tide_head_loss(const struct tide_call *call, int64_t row, float log_probability,
                                   float *ret_slope)
{
    const struct tide_node *node = call->node;
    float inputs[TIDE_ROW_INPUTS];
    int count = node->loss->inputs;
    for (int i = 0; i < count; i++)
        inputs[i] = ((const float *)call->in[INPUTS + i])[row];
    return node->loss->loss(log_probability, inputs,
                            node->numbers[CONSTANTS] ? call->in[INPUTS + count] : NULL, ret_slope);
}

#endif
