/*
 * op_logits.c - the tied head without a loss: x (N, C), table (V, C) -> (N, V) f32. For decoding only, where
 * rows are few: there is no backward pass.
 */
#include "rt/op_head.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]];
    if (table->rank != 2 || table->dims[1] != tide_tensor_columns(x))
        return tide_graph_fail(graph, "logits: '%s' does not fit '%s'", x->name, table->name);
    int64_t dims[2] = {tide_tensor_rows(x), table->dims[0]};
    return tide_graph_output(graph, node, "logits", TIDE_F32, 2, dims);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    double logits = (double)tide_tensor_count(&graph->tensors[node->out[0]]);
    return 2.0 * logits * (double)tide_tensor_columns(&graph->tensors[node->in[X]]);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)), V = tide_in_tensor(call, TABLE)->dims[0],
            C = tide_in_tensor(call, TABLE)->dims[1];
    for (int64_t at = 0; at < rows * V; at++) {
        double sum = 0;
        for (int64_t c = 0; c < C; c++)
            sum += tide_in(call, X, at / V * C + c) * tide_in_row(call, TABLE, at % V, c);
        tide_set_out(call, 0, at, sum);
    }
}

const struct tide_op tide_op_of_logits = {
    .name = "logits",
    .shape = shape,
    .work = work,
    .reference_forward = reference_forward,
};

int tide_op_logits(struct tide_graph *graph, int x, int table)
{
    struct tide_node node = {.op = &tide_op_of_logits, .in = {x, table}, .in_count = 2};
    return tide_graph_append(graph, &node);
}
