/*
 * op_norm.c - layer normalisation: y = (x - mean) / deviation * weight + bias, row by row.
 *
 * x (N, C) is f32, y the compute type; mean and 1 / deviation of each row are kept for the backward pass.
 */
#include "rt/op_norm.h"
#include "rt/reference.h"

#include <math.h>

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *weight = &graph->tensors[node->in[WEIGHT]],
                             *bias = &graph->tensors[node->in[BIAS]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (x->dtype != TIDE_F32 || weight->rank != 1 || weight->dims[0] != dims[1] || bias->rank != 1 ||
        bias->dims[0] != dims[1])
        return tide_graph_fail(graph, "norm: '%s' does not fit '%s'", x->name, weight->name);
    tide_graph_output(graph, node, "norm", graph->compute, 2, dims);
    tide_graph_output(graph, node, "norm mean", TIDE_F32, 1, dims);
    return tide_graph_output(graph, node, "norm inverse", TIDE_F32, 1, dims);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X));
    for (int64_t i = 0; i < rows; i++) {
        double mean = 0, variance = 0;
        for (int64_t j = 0; j < C; j++)
            mean += tide_in(call, X, i * C + j) / (double)C;
        for (int64_t j = 0; j < C; j++)
            variance += pow(tide_in(call, X, i * C + j) - mean, 2) / (double)C;
        double inverse = 1 / sqrt(variance + call->node->real);
        for (int64_t j = 0; j < C; j++)
            tide_set_out(call, Y, i * C + j,
                         (tide_in(call, X, i * C + j) - mean) * inverse * tide_in(call, WEIGHT, j) +
                             tide_in(call, BIAS, j));
        tide_set_out(call, MEAN, i, mean);
        tide_set_out(call, INVERSE, i, inverse);
    }
}

static double normal_at(const struct tide_call *call, int64_t i, int64_t at)
{
    return (tide_in(call, X, at) - tide_out(call, MEAN, i)) * tide_out(call, INVERSE, i);
}

static void reference_backward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X));
    for (int64_t i = 0; i < rows; i++) {
        double mean = 0, along = 0; /* of the normalised row's gradient: its mean, and with the row */
        for (int64_t j = 0; j < C; j++) {
            double g = tide_out_grad(call, Y, i * C + j) * tide_in(call, WEIGHT, j);
            mean += g / (double)C;
            along += g * normal_at(call, i, i * C + j) / (double)C;
        }
        for (int64_t j = 0; j < C; j++) {
            double g = tide_out_grad(call, Y, i * C + j) * tide_in(call, WEIGHT, j);
            tide_give_grad(call, X, i * C + j,
                           (g - mean - normal_at(call, i, i * C + j) * along) * tide_out(call, INVERSE, i));
        }
    }
    for (int64_t j = 0; j < C; j++) {
        double weight = 0, bias = 0;
        for (int64_t i = 0; i < rows; i++) {
            weight += tide_out_grad(call, Y, i * C + j) * normal_at(call, i, i * C + j);
            bias += tide_out_grad(call, Y, i * C + j);
        }
        tide_give_grad(call, WEIGHT, j, weight);
        tide_give_grad(call, BIAS, j, bias);
    }
}

const struct tide_op tide_op_of_norm = {
    .name = "norm",
    .shape = shape,
    .each = 8,
    .reads_in = {[X] = 1U << X | 1U << WEIGHT, [WEIGHT] = 1U << X, [BIAS] = 1U << X},
    .reads_out = {[X] = 1U << MEAN | 1U << INVERSE,
                  [WEIGHT] = 1U << MEAN | 1U << INVERSE,
                  [BIAS] = 1U << MEAN | 1U << INVERSE},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_norm(struct tide_graph *graph, int x, int weight, int bias, float epsilon)
{
    struct tide_node node = {.op = &tide_op_of_norm, .in = {x, weight, bias}, .in_count = 3, .real = epsilon};
    return tide_graph_append(graph, &node);
}
