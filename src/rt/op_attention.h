/*
 * op_attention.h - operands of attention and where its sequences lie, for its meaning and its kernels.
 */
#ifndef TIDE_OP_ATTENTION_H
#define TIDE_OP_ATTENTION_H

#include "rt/op.h"

enum { QKV, LENGTHS };    /* operands; without lengths all sequences are as long as they may be */
enum { Y, LOG_SUM };      /* outputs */
enum { HEADS, SEQUENCE }; /* numbers of the node; sequence: the longest */

/* How many sequences there are. Rows that are nobody's are cut into as many more as they need. */
static inline int64_t tide_attention_sequences(const struct tide_call *call)
{
    const struct tide_node *node = call->node;
    const struct tide_tensor *tensors = call->graph->tensors;
    int64_t left = tide_tensor_rows(&tensors[node->in[QKV]]), most = node->numbers[SEQUENCE], given = 0;
    for (; node->in_count > LENGTHS && given < tensors[node->in[LENGTHS]].dims[0]; given++)
        left -= ((const int32_t *)call->in[LENGTHS])[given];
    return given + (left + most - 1) / most;
}

/* Rows of the sequence with that number, which begins at `row`. */
static inline int64_t tide_attention_rows(const struct tide_call *call, int64_t number, int64_t row)
{
    const struct tide_node *node = call->node;
    const struct tide_tensor *tensors = call->graph->tensors;
    int64_t left = tide_tensor_rows(&tensors[node->in[QKV]]) - row, most = node->numbers[SEQUENCE];
    if (node->in_count > LENGTHS && number < tensors[node->in[LENGTHS]].dims[0])
        return ((const int32_t *)call->in[LENGTHS])[number];
    return left < most ? left : most;
}

#endif
