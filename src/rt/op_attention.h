/*
 * op_attention.h - the operands of attention and where its sequences lie, for the reference and the kernels.
 */
#ifndef TIDE_OP_ATTENTION_H
#define TIDE_OP_ATTENTION_H

#include "rt/op.h"

enum { QKV, LENGTHS };    /* operands; without lengths all sequences have the full length */
enum { Y, LOG_SUM };      /* outputs */
enum { HEADS, SEQUENCE }; /* numbers of the node; sequence: the longest length */

/* Returns the number of sequences. Rows after the given ones are cut into as many more as they need. */
static inline int64_t tide_attention_sequences(const struct tide_call *call)
{
    const struct tide_node *node = call->node;
    const struct tide_tensor *tensors = call->graph->tensors;
    int64_t left = tide_tensor_rows(&tensors[node->in[QKV]]), most = node->numbers[SEQUENCE], given = 0;
    for (; node->in_count > LENGTHS && given < tensors[node->in[LENGTHS]].dims[0]; given++)
        left -= ((const int32_t *)call->in[LENGTHS])[given];
    return given + (left + most - 1) / most;
}

/* Returns the rows of sequence `number`, which begins at `row`. */
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
