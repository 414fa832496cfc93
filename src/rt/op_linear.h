/*
 * op_linear.h - the operands and sizes of a linear layer, for the reference and the kernels.
 */
#ifndef TIDE_OP_LINEAR_H
#define TIDE_OP_LINEAR_H

#include "rt/op.h"

enum { X, WEIGHT, BIAS };
enum { WIDE, TRANSPOSED }; /* numbers of the node */

struct tide_linear {
    int64_t rows, in, out;
    enum tide_dtype from, to; /* of x and of y */
    enum tide_dtype stored;   /* of the weight */
    bool relu;
    bool has_bias, transposed; /* transposed: the weight is stored as (out, in) */
};

static inline struct tide_linear tide_linear_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *y = &graph->tensors[node->out[0]];
    const struct tide_tensor *weight = &graph->tensors[node->in[WEIGHT]];
    int64_t in = weight->dims[node->numbers[TRANSPOSED] ? 1 : 0];
    return (struct tide_linear){.rows = tide_tensor_count(x) / in,
                                .in = in,
                                .out = tide_tensor_columns(y),
                                .from = x->dtype,
                                .to = y->dtype,
                                .stored = weight->dtype,
                                .has_bias = tide_node_operands(node) > BIAS,
                                .relu = node->relu,
                                .transposed = node->numbers[TRANSPOSED]};
}

#endif
