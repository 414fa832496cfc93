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
    return tide_graph_output(graph, node, "relu", TIDE_F32, 2, dims);
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
    .each = 1,
    .reads_out = {1},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

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

int tide_op_relu(struct tide_graph *graph, int x)
{
    struct tide_node node = {.op = &tide_op_of_relu, .in = {x}, .in_count = 1};
    return tide_graph_append(graph, &node);
}
