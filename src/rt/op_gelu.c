/*
 * op_gelu.c - the tanh form of GELU: y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
 */
#include "rt/op.h"
#include "rt/reference.h"

#include <math.h>

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    return tide_graph_output(graph, node, "gelu", x->dtype, 2, dims);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {
        double x = tide_in(call, 0, i);
        tide_set_out(call, 0, i, x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
    }
}

static void reference_backward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {
        double x = tide_in(call, 0, i), t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
        double t_slope = (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
        tide_give_grad(call, 0, i, tide_out_grad(call, 0, i) * ((1 + t) / 2 + x / 2 * t_slope));
    }
}

const struct tide_op tide_op_of_gelu = {
    .name = "gelu",
    .shape = shape,
    .each = 30,
    .reads_in = {1},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_gelu(struct tide_graph *graph, int x)
{
    struct tide_node node = {.op = &tide_op_of_gelu, .in = {x}, .in_count = 1};
    return tide_graph_append(graph, &node);
}
