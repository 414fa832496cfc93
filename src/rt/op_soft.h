/*
 * op_soft.h - the operands of the losses that have a target for each number: soft and squared.
 */
#ifndef TIDE_OP_SOFT_H
#define TIDE_OP_SOFT_H

#include "rt/op.h"

enum { X, TARGETS };

/* Returns the factor for the sum over boards. */
static inline double tide_soft_share(const struct tide_call *call)
{
    return call->node->real / (double)call->graph->tensors[call->node->in[X]].dims[0];
}

#endif
