/*
 * op_pool.c - (B cells, C) -> (B, C): the mean over the cells of each board.
 */
#include "rt/op.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t rows = tide_tensor_rows(x), cells = node->numbers[0];
    if (x->dtype != TIDE_F32 || cells < 1 || rows % cells)
        return tide_graph_fail(graph, "pool: the rows of '%s' are not whole boards", x->name);
    int64_t dims[2] = {rows / cells, tide_tensor_columns(x)};
    return tide_graph_output(graph, node, "pool", TIDE_F32, 2, dims);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, 0)),
            C = tide_tensor_columns(tide_in_tensor(call, 0)), cells = call->node->numbers[0];
    for (int64_t board = 0; board < rows / cells; board++)
        for (int64_t j = 0; j < C; j++) {
            double sum = 0;
            for (int64_t i = 0; i < cells; i++)
                sum += tide_in(call, 0, (board * cells + i) * C + j);
            tide_set_out(call, 0, board * C + j, sum / (double)cells);
        }
}

static void reference_backward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, 0)),
            C = tide_tensor_columns(tide_in_tensor(call, 0)), cells = call->node->numbers[0];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < C; j++)
            tide_give_grad(call, 0, i * C + j, tide_out_grad(call, 0, i / cells * C + j) / (double)cells);
}

const struct tide_op tide_op_of_pool = {
    .name = "pool",
    .shape = shape,
    .each = 1,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_pool(struct tide_graph *graph, int x, int64_t cells)
{
    struct tide_node node = {.op = &tide_op_of_pool, .in = {x}, .in_count = 1, .numbers = {cells}};
    return tide_graph_append(graph, &node);
}
