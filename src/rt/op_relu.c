/*
 * op_relu.c - y = x where it is positive, else 0. At 0 the slope is 0.
 */
#include "rt/op.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (x->dtype != TIDE_F32)
        return tide_graph_fail(graph, "relu: '%s' is not f32", x->name);
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "relu", TIDE_ACTIVATION, TIDE_F32, 2, dims);
    return node->out[0] < 0 ? -1 : 0;
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return (double)tide_tensor_count(&graph->tensors[node->in[0]]);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {
        double x = tide_in(call, 0, i);
        tide_set_out(call, 0, i, x > 0 ? x : 0);
    }
}

static void reference_backward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++)
        tide_give_grad(call, 0, i, tide_out(call, 0, i) > 0 ? tide_out_grad(call, 0, i) : 0);
}

const struct tide_op tide_op_of_relu = {
    .name = "relu",
    .shape = shape,
    .work = work,
    .reads_out = {1},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_relu(struct tide_graph *graph, int x)
{
    struct tide_node node = {.op = &tide_op_of_relu, .in = {x}, .in_count = 1};
    return tide_graph_append(graph, &node);
}
