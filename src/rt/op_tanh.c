/*
 * op_tanh.c - y = tanh(x): a value between -1 and 1.
 */
#include "rt/op.h"
#include "rt/reference.h"

#include <math.h>

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (x->dtype != TIDE_F32)
        return tide_graph_fail(graph, "tanh: '%s' is not f32", x->name);
    return tide_graph_output(graph, node, "tanh", TIDE_F32, 2, dims);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++)
        tide_set_out(call, 0, i, tanh(tide_in(call, 0, i)));
}

static void reference_backward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {
        double y = tide_out(call, 0, i);
        tide_give_grad(call, 0, i, tide_out_grad(call, 0, i) * (1 - y * y));
    }
}

const struct tide_op tide_op_of_tanh = {
    .name = "tanh",
    .shape = shape,
    .each = 20,
    .reads_out = {1},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_tanh(struct tide_graph *graph, int x)
{
    struct tide_node node = {.op = &tide_op_of_tanh, .in = {x}, .in_count = 1};
    return tide_graph_append(graph, &node);
}
