/*
 * op_depthwise.h - the operands and sizes of a depthwise convolution, for its meaning and its kernels.
 */
#ifndef TIDE_OP_DEPTHWISE_H
#define TIDE_OP_DEPTHWISE_H

#include "rt/op.h"
#include "rt/window.h"

enum { X, WEIGHT, BIAS };
enum { COLUMNS, ROWS }; /* numbers of the node: of a board */

struct tide_depthwise {
    int64_t rows, channels; /* rows: cells of all boards */
    struct tide_board board;
    enum tide_dtype dtype;  /* of x and of y */
    enum tide_dtype stored; /* of the weight */
    bool has_bias;
};

static inline struct tide_depthwise tide_depthwise_of(const struct tide_graph *graph,
                                                      const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]];
    return (struct tide_depthwise){.rows = tide_tensor_rows(x),
                                   .channels = tide_tensor_columns(x),
                                   .board = {node->numbers[COLUMNS], node->numbers[ROWS]},
                                   .dtype = x->dtype,
                                   .stored = graph->tensors[node->in[WEIGHT]].dtype,
                                   .has_bias = node->in_count > BIAS};
}

#endif
