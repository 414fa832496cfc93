/*
 * op_gate.c - squeeze and excitation. Pool: (B cells, C) -> (B, C), the mean over the cells of each board.
 * Gate: x (B cells, C) times the sigmoid of gate (B, C), how much of each channel a board lets through.
 */
#include "rt/op_gate.h"
#include "rt/reference.h"

#include <math.h>

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *gate = &graph->tensors[node->in[GATE]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (x->dtype != TIDE_F32 || gate->dtype != TIDE_F32 || tide_tensor_columns(gate) != dims[1] ||
        dims[0] % tide_tensor_rows(gate))
        return tide_graph_fail(graph, "gate: '%s' does not fit '%s'", x->name, gate->name);
    return tide_graph_output(graph, node, "gated", TIDE_F32, 2, dims);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return (double)tide_tensor_count(&graph->tensors[node->in[X]]) +
           20.0 * (double)tide_tensor_count(&graph->tensors[node->in[GATE]]);
}

/* ---- reference */

static double open_at(const struct tide_call *call, int64_t at)
{
    return 1 / (1 + exp(-tide_in(call, GATE, at)));
}

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X)),
            cells = rows / tide_tensor_rows(tide_in_tensor(call, GATE));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < C; j++)
            tide_end_out(call, i * C + j, tide_in(call, X, i * C + j) * open_at(call, i / cells * C + j));
}

static void reference_backward(const struct tide_call *call)
{
    int64_t boards = tide_tensor_rows(tide_in_tensor(call, GATE)),
            C = tide_tensor_columns(tide_in_tensor(call, X)),
            cells = tide_tensor_rows(tide_in_tensor(call, X)) / boards;
    for (int64_t board = 0; board < boards; board++)
        for (int64_t j = 0; j < C; j++) {
            double open = open_at(call, board * C + j), sum = 0;
            for (int64_t i = 0; i < cells; i++) {
                int64_t at = (board * cells + i) * C + j;
                sum += tide_out_grad(call, 0, at) * tide_in(call, X, at);
                tide_give_grad(call, X, at, tide_out_grad(call, 0, at) * open);
            }
            tide_give_grad(call, GATE, board * C + j, sum * open * (1 - open));
        }
}

const struct tide_op tide_op_of_gate = {
    .name = "gate",
    .shape = shape,
    .work = work,
    .ends = true,
    .reads_in = {[X] = 1U << GATE, [GATE] = 1U << X | 1U << GATE},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_gate(struct tide_graph *graph, int x, int gate)
{
    struct tide_node node = {.op = &tide_op_of_gate, .in = {x, gate}, .in_count = 2};
    return tide_graph_append(graph, &node);
}

/* ---- pool */

static int pool_shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]];
    int64_t rows = tide_tensor_rows(x), cells = node->numbers[0];
    if (x->dtype != TIDE_F32 || cells < 1 || rows % cells)
        return tide_graph_fail(graph, "pool: the rows of '%s' are not whole boards", x->name);
    int64_t dims[2] = {rows / cells, tide_tensor_columns(x)};
    return tide_graph_output(graph, node, "pool", TIDE_F32, 2, dims);
}

static void pool_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X)), cells = call->node->numbers[0];
    for (int64_t board = 0; board < rows / cells; board++)
        for (int64_t j = 0; j < C; j++) {
            double sum = 0;
            for (int64_t i = 0; i < cells; i++)
                sum += tide_in(call, 0, (board * cells + i) * C + j);
            tide_set_out(call, 0, board * C + j, sum / (double)cells);
        }
}

static void pool_backward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X)), cells = call->node->numbers[0];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < C; j++)
            tide_give_grad(call, 0, i * C + j, tide_out_grad(call, 0, i / cells * C + j) / (double)cells);
}

const struct tide_op tide_op_of_pool = {
    .name = "pool",
    .shape = pool_shape,
    .each = 1,
    .reference_forward = pool_forward,
    .reference_backward = pool_backward,
};

int tide_op_pool(struct tide_graph *graph, int x, int64_t cells)
{
    struct tide_node node = {.op = &tide_op_of_pool, .in = {x}, .in_count = 1, .numbers = {cells}};
    return tide_graph_append(graph, &node);
}
