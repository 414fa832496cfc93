/*
 * op_add.c - the sum of two (N, C): the residual stream, and what adapters add. Its gradient goes to both
 * operands unchanged, so the backward pass computes nothing.
 */
#include "rt/op.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *a = &graph->tensors[node->in[0]], *b = &graph->tensors[node->in[1]];
    int64_t dims[2] = {tide_tensor_rows(a), tide_tensor_columns(a)};
    if (a->dtype != b->dtype || a->dtype == TIDE_I32 || a->bytes != b->bytes ||
        tide_tensor_columns(b) != dims[1])
        return tide_graph_fail(graph, "add: '%s' does not fit '%s'", a->name, b->name);
    return tide_graph_output(graph, node, "sum", a->dtype, 2, dims);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++)
        tide_set_out(call, 0, i, tide_in(call, 0, i) + tide_in(call, 1, i));
}

static void reference_backward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {
        tide_give_grad(call, 0, i, tide_out_grad(call, 0, i));
        tide_give_grad(call, 1, i, tide_out_grad(call, 0, i));
    }
}

const struct tide_op tide_op_of_add = {
    .name = "add",
    .shape = shape,
    .each = 1,
    .passes = true,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_add(struct tide_graph *graph, int a, int b)
{
    struct tide_node node = {.op = &tide_op_of_add, .in = {a, b}, .in_count = 2};
    return tide_graph_append(graph, &node);
}
