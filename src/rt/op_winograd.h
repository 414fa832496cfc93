/*
 * op_winograd.h - the operands and sizes of a convolution by points (winograd.h), for the reference and the
 * kernels.
 */
#ifndef TIDE_OP_WINOGRAD_H
#define TIDE_OP_WINOGRAD_H

#include "rt/op.h"
#include "rt/winograd.h"

enum { X, WEIGHT, BIAS };
enum { COLUMNS, ROWS }; /* numbers of the node: the size of a board */

struct tide_winograd {
    int64_t in, out, patches; /* patches: of all boards */
    struct tide_board board;
    bool relu;
};

static inline struct tide_winograd tide_winograd_of(const struct tide_graph *graph,
                                                    const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *y = &graph->tensors[node->out[0]];
    struct tide_winograd d = {.in = tide_tensor_columns(x),
                              .out = tide_tensor_columns(y),
                              .board = {node->numbers[COLUMNS], node->numbers[ROWS]},
                              .relu = node->relu};
    d.patches = tide_tensor_rows(x) / (d.board.columns * d.board.rows) * tide_patches(d.board.columns) *
                tide_patches(d.board.rows);
    return d;
}

#endif
