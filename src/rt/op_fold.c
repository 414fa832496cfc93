/*
 * op_fold.c - a product and the batch norm after it as one product with a bias: weight (K, O) and the norm's
 * scale, shift, running mean and running variance (O) -> weight times scale / deviation, column by column,
 * and the bias (O) shift - mean times that. Forward only: with running statistics nobody trains.
 */
#include "rt/op_fold.h"
#include "rt/reference.h"

#include <math.h>

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *weight = &graph->tensors[node->in[WEIGHT]];
    int64_t dims[2] = {tide_tensor_rows(weight), tide_tensor_columns(weight)};
    for (int i = SCALE; i <= VARIANCE; i++) {
        const struct tide_tensor *t = &graph->tensors[node->in[i]];
        if (weight->rank != 2 || weight->dtype == TIDE_I8 || t->rank != 1 || t->dims[0] != dims[1] ||
            t->dtype != TIDE_F32)
            return tide_graph_fail(graph, "fold: '%s' does not fit '%s'", t->name, weight->name);
    }
    node->out_count = 2;
    node->out[FOLDED] = tide_graph_tensor(graph, "folded", TIDE_ACTIVATION, weight->dtype, 2, dims);
    node->out[BIAS] = tide_graph_tensor(graph, "folded bias", TIDE_ACTIVATION, TIDE_F32, 1, dims + 1);
    return graph->failed ? -1 : 0;
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return (double)tide_tensor_count(&graph->tensors[node->in[WEIGHT]]);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, WEIGHT)),
            columns = tide_tensor_columns(tide_in_tensor(call, WEIGHT));
    for (int64_t j = 0; j < columns; j++) {
        double by = tide_in(call, SCALE, j) / sqrt(tide_in(call, VARIANCE, j) + call->node->real);
        for (int64_t i = 0; i < rows; i++)
            tide_set_out(call, FOLDED, i * columns + j, tide_in(call, WEIGHT, i * columns + j) * by);
        tide_set_out(call, BIAS, j, tide_in(call, SHIFT, j) - tide_in(call, MEAN, j) * by);
    }
}

const struct tide_op tide_op_of_fold = {
    .name = "fold",
    .shape = shape,
    .work = work,
    .reference_forward = reference_forward,
};

int tide_op_fold(struct tide_graph *graph, int weight, const struct tide_batchnorm *norm)
{
    struct tide_node node = {.op = &tide_op_of_fold,
                             .in = {weight, norm->weight, norm->bias, norm->mean, norm->variance},
                             .in_count = 5,
                             .real = norm->epsilon};
    return tide_graph_append(graph, &node);
}
