/*
 * op_soft.h - the operands of the losses that have a target for each number: soft and squared.
 */
#ifndef TIDE_OP_SOFT_H
#define TIDE_OP_SOFT_H

#include "rt/op.h"

enum { X, TARGETS };

/* Checks that x (B, ...) and targets have equally many numbers, and makes the loss. */
static inline int tide_soft_shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *targets = &graph->tensors[node->in[TARGETS]];
    int64_t one = 1;
    if (x->dtype != TIDE_F32 || targets->dtype != TIDE_F32 ||
        tide_tensor_count(targets) != tide_tensor_count(x))
        return tide_graph_fail(graph, "%s: '%s' does not fit '%s'", node->op->name, targets->name, x->name);
    return tide_graph_output(graph, node, "loss", TIDE_F32, 1, &one);
}

/* Returns the factor for the sum over boards. */
static inline double tide_soft_share(const struct tide_call *call)
{
    return call->node->real / (double)call->graph->tensors[call->node->in[X]].dims[0];
}

#endif
