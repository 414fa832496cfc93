/*
 * op_conv.h - the operands and sizes of a convolution, for the reference and the kernels. A depthwise one
 * uses them too, with in equal to out.
 */
#ifndef TIDE_OP_CONV_H
#define TIDE_OP_CONV_H

#include "rt/op.h"
#include "rt/window.h"

enum { X, WEIGHT, BIAS };
enum { COLUMNS, ROWS }; /* numbers of the node: the size of a board */

struct tide_conv {
    int64_t rows, in, out; /* rows: cells of all boards */
    struct tide_board board;
    enum tide_dtype from, to; /* of x and of y */
    enum tide_dtype stored;   /* of the weight */
    bool has_bias, relu;
};

static inline struct tide_conv tide_conv_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *y = &graph->tensors[node->out[0]];
    return (struct tide_conv){.rows = tide_tensor_rows(x),
                              .in = tide_tensor_columns(x),
                              .out = tide_tensor_columns(y),
                              .board = {node->numbers[COLUMNS], node->numbers[ROWS]},
                              .from = x->dtype,
                              .to = y->dtype,
                              .stored = graph->tensors[node->in[WEIGHT]].dtype,
                              .has_bias = tide_node_operands(node) > BIAS,
                              .relu = node->relu};
}

#endif
