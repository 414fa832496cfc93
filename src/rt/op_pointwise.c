/*
 * op_pointwise.c - operators that treat each number by itself: y (N, C) from x (N, C).
 */
#include "rt/op.h"
#include "rt/reference.h"

#include <math.h>

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    bool of_boards = node->op == &tide_op_of_relu || node->op == &tide_op_of_tanh;
    if (x->dtype != TIDE_F32 && (of_boards || x->dtype != TIDE_BF16))
        return tide_graph_fail(graph, "%s: '%s' is not f32", node->op->name, x->name);
    return tide_graph_output(graph, node, node->op->name, x->dtype, 2, dims);
}

static int append(struct tide_graph *graph, const struct tide_op *op, int x, float real)
{
    struct tide_node node = {.op = op, .in = {x}, .in_count = 1, .real = real};
    return tide_graph_append(graph, &node);
}

/* Y: y as an expression in x. SLOPE: its derivative, in what READ gives: x (tide_in) or y (tide_out). The
 * rest is for tide_op. */
#define POINTWISE(NAME, Y, SLOPE, READ, ...)                                                                 \
    static void NAME##_forward(const struct tide_call *call)                                                 \
    {                                                                                                        \
        for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {                           \
            double x = tide_in(call, 0, i);                                                                  \
            tide_set_out(call, 0, i, Y);                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    static void NAME##_backward(const struct tide_call *call)                                                \
    {                                                                                                        \
        for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {                           \
            double read = READ(call, 0, i);                                                                  \
            (void)read;                                                                                      \
            tide_give_grad(call, 0, i, tide_out_grad(call, 0, i) * (SLOPE));                                 \
        }                                                                                                    \
    }                                                                                                        \
    const struct tide_op tide_op_of_##NAME = {.name = #NAME,                                                 \
                                              .shape = shape,                                                \
                                              .reference_forward = NAME##_forward,                           \
                                              .reference_backward = NAME##_backward,                         \
                                              __VA_ARGS__};

/* The tanh form of GELU: y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
static double tanh_in_gelu(double x)
{
    return tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double gelu_slope(double x)
{
    double t = tanh_in_gelu(x), t_slope = (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return (1 + t) / 2 + x / 2 * t_slope;
}

POINTWISE(gelu, x / 2 * (1 + tanh_in_gelu(x)), gelu_slope(read), tide_in, .each = 30, .reads_in = {1})
POINTWISE(relu, x > 0 ? x : 0, read > 0 ? 1 : 0, tide_out, .each = 1, .reads_out = {1})
POINTWISE(tanh, tanh(x), 1 - read * read, tide_out, .each = 20, .reads_out = {1})
POINTWISE(scale, x * call->node->real, call->node->real, tide_out_grad, .each = 1)

int tide_op_gelu(struct tide_graph *graph, int x)
{
    return append(graph, &tide_op_of_gelu, x, 0);
}

int tide_op_relu(struct tide_graph *graph, int x)
{
    return append(graph, &tide_op_of_relu, x, 0);
}

int tide_op_tanh(struct tide_graph *graph, int x)
{
    return append(graph, &tide_op_of_tanh, x, 0);
}

int tide_op_scale(struct tide_graph *graph, int x, float by)
{
    return append(graph, &tide_op_of_scale, x, by);
}

/* ---- ReLU within another node */

/* True if the last node makes x and can add `added` and apply ReLU as it writes. */
static bool may_end(const struct tide_graph *graph, int x, int added)
{
    if (graph->failed || x < 0 || graph->node_count == 0 || graph->programs[graph->program_count - 1].trains)
        return false;
    const struct tide_node *last = &graph->nodes[graph->node_count - 1];
    const struct tide_tensor *y = &graph->tensors[x], *also = added < 0 ? NULL : &graph->tensors[added];
    return last->op->ends && last->out[0] == x && !last->relu && last->in_count < TIDE_OPERANDS &&
           (!also || (also->dtype == y->dtype && also->bytes == y->bytes &&
                      tide_tensor_columns(also) == tide_tensor_columns(y)));
}

int tide_op_relu_sum(struct tide_graph *graph, int x, int added)
{
    if (!may_end(graph, x, added))
        return tide_op_relu(graph, added < 0 ? x : tide_op_add(graph, x, added));
    struct tide_node *last = &graph->nodes[graph->node_count - 1];
    last->relu = true;
    if (added >= 0) {
        last->added = last->in_count++;
        last->in[last->added] = added;
    }
    return x;
}
