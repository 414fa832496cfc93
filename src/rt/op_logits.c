/*
 * op_logits.c - the tied head without a loss: x (N, C), table (V, C) -> (N, V) f32. For decoding only, where
 * rows are few: there is no backward pass.
 */
#include "rt/op.h"
#include "rt/reference.h"

enum { X, TABLE };

static struct tide_product product_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]];
    struct tide_product p =
        tide_product(tide_tensor_rows(x), table->dims[0], table->dims[1], false, true, x->dtype, TIDE_F32);
    tide_product_stored(&p, x->dtype, table->dtype);
    return p;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]];
    if (table->rank != 2 || table->dims[1] != tide_tensor_columns(x))
        return tide_graph_fail(graph, "logits: '%s' does not fit '%s'", x->name, table->name);
    int64_t dims[2] = {tide_tensor_rows(x), table->dims[0]};
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "logits", TIDE_ACTIVATION, TIDE_F32, 2, dims);
    return node->out[0] < 0 ? -1 : 0;
}

static size_t scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction)
{
    struct tide_product p = product_of(graph, node);
    (void)direction;
    return tide_matmuls_scratch(matmuls, &p);
}

static void forward(const struct tide_call *call)
{
    struct tide_product p = product_of(call->graph, call->node);
    tide_matmul(call->matmuls, &p, call->in[X], call->in[TABLE], NULL, call->out[0], call->scratch);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    struct tide_product p = product_of(graph, node);
    return 2.0 * (double)p.m * (double)p.n * (double)p.k;
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    struct tide_product p = product_of(call->graph, call->node);
    for (int64_t at = 0; at < p.m * p.n; at++) {
        double sum = 0;
        for (int64_t c = 0; c < p.k; c++)
            sum += tide_in(call, X, at / p.n * p.k + c) * tide_in_row(call, TABLE, at % p.n, c);
        tide_set_out(call, 0, at, sum);
    }
}

const struct tide_op tide_op_of_logits = {
    .name = "logits",
    .shape = shape,
    .scratch = scratch,
    .forward = forward,
    .work = work,
    .reference_forward = reference_forward,
};

int tide_op_logits(struct tide_graph *graph, int x, int table)
{
    struct tide_node node = {.op = &tide_op_of_logits, .in = {x, table}, .in_count = 2};
    return tide_graph_append(graph, &node);
}
