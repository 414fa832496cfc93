/*
 * op_batchnorm.c - batch normalisation: y = (x - mean) / deviation * weight + bias, column by column, with
 * the mean and deviation of the column in this batch.
 *
 * x (N, C) and y are f32. The mean and 1 / deviation of each column are kept for the backward pass. If the
 * call learns, the running mean and variance of each column move a tenth of the way to those of the batch;
 * the variance is the unbiased estimate, divided by N - 1. A batch whose statistics are not finite is
 * skipped. A net that only plays folds the running statistics into the preceding product (op_fold.c).
 */
#include "rt/op_norm.h"
#include "rt/reference.h"

#include <math.h>

static bool fits(const struct tide_graph *graph, int tensor, int64_t columns)
{
    const struct tide_tensor *t = &graph->tensors[tensor];
    return t->rank == 1 && t->dims[0] == columns && t->dtype == TIDE_F32;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    for (int i = WEIGHT; i <= RUNNING_VARIANCE; i++)
        if (x->dtype != TIDE_F32 || dims[0] < 2 || !fits(graph, node->in[i], dims[1]))
            return tide_graph_fail(graph, "batch norm: '%s' does not fit '%s'", x->name,
                                   graph->tensors[node->in[i]].name);
    tide_graph_output(graph, node, "batch norm", TIDE_F32, 2, dims);
    tide_graph_output(graph, node, "batch mean", TIDE_F32, 1, dims + 1);
    return tide_graph_output(graph, node, "batch inverse", TIDE_F32, 1, dims + 1);
}

/* ---- reference */

static void learn(const struct tide_call *call, int operand, int64_t column, double of_batch)
{
    double was = tide_in(call, operand, column);
    if (isfinite(of_batch))
        tide_number_set((void *)call->in[operand], TIDE_F32, column,
                        was + (of_batch - was) * tide_batchnorm_share);
}

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X));
    for (int64_t j = 0; j < C; j++) {
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < rows; i++)
            mean += tide_in(call, X, i * C + j) / (double)rows;
        for (int64_t i = 0; i < rows; i++)
            squares += pow(tide_in(call, X, i * C + j) - mean, 2);
        double inverse = 1 / sqrt(squares / (double)rows + call->node->real);
        for (int64_t i = 0; i < rows; i++)
            tide_set_out(call, Y, i * C + j,
                         (tide_in(call, X, i * C + j) - mean) * inverse * tide_in(call, WEIGHT, j) +
                             tide_in(call, BIAS, j));
        tide_set_out(call, MEAN, j, mean);
        tide_set_out(call, INVERSE, j, inverse);
        if (call->learns) {
            learn(call, RUNNING_MEAN, j, mean);
            learn(call, RUNNING_VARIANCE, j, squares / (double)(rows - 1));
        }
    }
}

static double normal_at(const struct tide_call *call, int64_t j, int64_t at)
{
    return (tide_in(call, X, at) - tide_out(call, MEAN, j)) * tide_out(call, INVERSE, j);
}

static void reference_backward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X));
    for (int64_t j = 0; j < C; j++) {
        double sum = 0, along = 0; /* sum of the gradient, and of its product with the normalised column */
        for (int64_t at = j; at < rows * C; at += C) {
            sum += tide_out_grad(call, Y, at);
            along += tide_out_grad(call, Y, at) * normal_at(call, j, at);
        }
        for (int64_t at = j; at < rows * C; at += C)
            tide_give_grad(
                call, X, at,
                (tide_out_grad(call, Y, at) - (sum + normal_at(call, j, at) * along) / (double)rows) *
                    tide_in(call, WEIGHT, j) * tide_out(call, INVERSE, j));
        tide_give_grad(call, WEIGHT, j, along);
        tide_give_grad(call, BIAS, j, sum);
    }
}

const struct tide_op tide_op_of_batchnorm = {
    .name = "batchnorm",
    .shape = shape,
    .each = 8,
    .reads_in = {[X] = 1U << X | 1U << WEIGHT, [WEIGHT] = 1U << X, [BIAS] = 1U << X},
    .reads_out = {[X] = 1U << MEAN | 1U << INVERSE,
                  [WEIGHT] = 1U << MEAN | 1U << INVERSE,
                  [BIAS] = 1U << MEAN | 1U << INVERSE},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_batchnorm(struct tide_graph *graph, int x, const struct tide_batchnorm *norm)
{
    struct tide_node node = {.op = &tide_op_of_batchnorm,
                             .in = {x, norm->weight, norm->bias, norm->mean, norm->variance},
                             .in_count = 5,
                             .real = norm->epsilon};
    return tide_graph_append(graph, &node);
}
