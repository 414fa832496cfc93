/*
 * reference.h - helpers for the plain references of operators.
 *
 * A reference computes an operator in f64 from the numbers as stored in memory and rounds only what it
 * writes. It is short and slow; nothing trains with it.
 */
#ifndef TIDE_REFERENCE_H
#define TIDE_REFERENCE_H

#include "rt/op.h"

static inline double tide_in(const struct tide_call *call, int i, int64_t at)
{
    return tide_number(call->in[i], call->graph->tensors[call->node->in[i]].dtype, at);
}

/* The same for a tensor stored in any type. */
static inline double tide_in_row(const struct tide_call *call, int i, int64_t row, int64_t column)
{
    const struct tide_tensor *t = &call->graph->tensors[call->node->in[i]];
    int64_t columns = tide_tensor_columns(t);
    const char *at = (const char *)call->in[i] + (size_t)row * tide_row_bytes(t->dtype, columns);
    return tide_row_number(at, t->dtype, columns, column);
}

static inline double tide_out(const struct tide_call *call, int i, int64_t at)
{
    return tide_number(call->out[i], call->graph->tensors[call->node->out[i]].dtype, at);
}

static inline double tide_out_grad(const struct tide_call *call, int i, int64_t at)
{
    return tide_number(call->out_grad[i], call->graph->tensors[call->node->out[i]].dtype, at);
}

static inline void tide_set_out(const struct tide_call *call, int i, int64_t at, double value)
{
    tide_number_set(call->out[i], call->graph->tensors[call->node->out[i]].dtype, at, value);
}

/* The same, after what the node ends with: an added tensor and ReLU (tide_op.ends). */
static inline void tide_end_out(const struct tide_call *call, int64_t at, double value)
{
    if (call->node->added)
        value += tide_in(call, call->node->added, at);
    tide_set_out(call, 0, at, call->node->relu && !(value > 0) ? 0 : value);
}

/* Writes the gradient of in[i] or adds to it; does nothing if it is not wanted. */
static inline void tide_give_grad(const struct tide_call *call, int i, int64_t at, double value)
{
    if (!call->in_grad[i])
        return;
    const struct tide_tensor *t = &call->graph->tensors[call->node->in[i]];
    if (call->adds >> i & 1)
        value += tide_number(call->in_grad[i], t->dtype, at);
    tide_number_set(call->in_grad[i], t->dtype, at, value);
}

static inline const struct tide_tensor *tide_in_tensor(const struct tide_call *call, int i)
{
    return &call->graph->tensors[call->node->in[i]];
}

#endif
