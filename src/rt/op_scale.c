/*
 * op_scale.c - (N, C) times a number: the weight of an adapter.
 */
#include "rt/op.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (x->dtype != TIDE_F32 && x->dtype != TIDE_BF16)
        return tide_graph_fail(graph, "scale: '%s' has no numbers to scale", x->name);
    return tide_graph_output(graph, node, "scaled", x->dtype, 2, dims);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++)
        tide_set_out(call, 0, i, tide_in(call, 0, i) * call->node->real);
}

static void reference_backward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++)
        tide_give_grad(call, 0, i, tide_out_grad(call, 0, i) * call->node->real);
}

const struct tide_op tide_op_of_scale = {
    .name = "scale",
    .shape = shape,
    .each = 1,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_scale(struct tide_graph *graph, int x, float by)
{
    struct tide_node node = {.op = &tide_op_of_scale, .in = {x}, .in_count = 1, .real = by};
    return tide_graph_append(graph, &node);
}
