/*
 * op_norm.c - layer and batch normalisation: y = (x - mean) / deviation * weight + bias, with the mean and
 * deviation of the row or, for a batch norm, of the column in this batch.
 *
 * x (N, C) is f32; y is the compute type, of a batch norm f32. The mean and 1 / deviation of each row or
 * column are kept for the backward pass. If the call learns, the running mean and variance of each column of
 * a batch norm move a tenth of the way to those of the batch; the variance is the unbiased estimate, divided
 * by N - 1. A batch whose statistics are not finite is skipped. A net that only plays folds the running
 * statistics into the preceding product (op_fold.c).
 */
#include "rt/op_norm.h"
#include "rt/reference.h"

#include <math.h>

static bool is_batch(const struct tide_node *node)
{
    return node->op == &tide_op_of_batchnorm;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    bool batch = is_batch(node);
    for (int i = WEIGHT; i < node->in_count; i++) {
        const struct tide_tensor *t = &graph->tensors[node->in[i]];
        if (x->dtype != TIDE_F32 || (batch && dims[0] < 2) || t->rank != 1 || t->dims[0] != dims[1] ||
            t->dtype != TIDE_F32)
            return tide_graph_fail(graph, "%s: '%s' does not fit '%s'", node->op->name, x->name, t->name);
    }
    tide_graph_output(graph, node, batch ? "batch norm" : "norm", batch ? TIDE_F32 : graph->compute, 2, dims);
    tide_graph_output(graph, node, "mean", TIDE_F32, 1, dims + batch);
    return tide_graph_output(graph, node, "inverse", TIDE_F32, 1, dims + batch);
}

/* ---- reference */

/* Rows or columns: number i of one is at first * i + step * k. */
struct plain {
    int64_t rows, columns;
    int64_t groups, count, first, step;
};

static struct plain plain_of(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X));
    return is_batch(call->node) ? (struct plain){rows, C, C, rows, 1, C}
                                : (struct plain){rows, C, rows, C, C, 1};
}

static void learn(const struct tide_call *call, int operand, int64_t column, double of_batch)
{
    double was = tide_in(call, operand, column);
    if (isfinite(of_batch))
        tide_number_set((void *)call->in[operand], TIDE_F32, column,
                        was + (of_batch - was) * tide_batchnorm_share);
}

static void reference_forward(const struct tide_call *call)
{
    struct plain p = plain_of(call);
    for (int64_t i = 0; i < p.groups; i++) {
        double mean = 0, squares = 0;
        for (int64_t k = 0; k < p.count; k++)
            mean += tide_in(call, X, i * p.first + k * p.step) / (double)p.count;
        for (int64_t k = 0; k < p.count; k++)
            squares += pow(tide_in(call, X, i * p.first + k * p.step) - mean, 2);
        double inverse = 1 / sqrt(squares / (double)p.count + call->node->real);
        for (int64_t k = 0; k < p.count; k++) {
            int64_t at = i * p.first + k * p.step, column = at % p.columns;
            tide_set_out(call, Y, at,
                         (tide_in(call, X, at) - mean) * inverse * tide_in(call, WEIGHT, column) +
                             tide_in(call, BIAS, column));
        }
        tide_set_out(call, MEAN, i, mean);
        tide_set_out(call, INVERSE, i, inverse);
        if (is_batch(call->node) && call->learns) {
            learn(call, RUNNING_MEAN, i, mean);
            learn(call, RUNNING_VARIANCE, i, squares / (double)(p.count - 1));
        }
    }
}

static double normal_at(const struct tide_call *call, const struct plain *p, int64_t at)
{
    int64_t group = is_batch(call->node) ? at % p->columns : at / p->columns;
    return (tide_in(call, X, at) - tide_out(call, MEAN, group)) * tide_out(call, INVERSE, group);
}

/* The gradient of a normalised number. */
static double slope_at(const struct tide_call *call, const struct plain *p, int64_t at)
{
    return tide_out_grad(call, Y, at) * tide_in(call, WEIGHT, at % p->columns);
}

static void reference_backward(const struct tide_call *call)
{
    struct plain p = plain_of(call);
    for (int64_t i = 0; i < p.groups; i++) {
        double mean = 0, along = 0; /* of these gradients: their mean, and with the normalised numbers */
        for (int64_t k = 0; k < p.count; k++) {
            int64_t at = i * p.first + k * p.step;
            mean += slope_at(call, &p, at) / (double)p.count;
            along += slope_at(call, &p, at) * normal_at(call, &p, at) / (double)p.count;
        }
        for (int64_t k = 0; k < p.count; k++) {
            int64_t at = i * p.first + k * p.step;
            tide_give_grad(call, X, at,
                           (slope_at(call, &p, at) - mean - normal_at(call, &p, at) * along) *
                               tide_out(call, INVERSE, i));
        }
    }
    for (int64_t j = 0; j < p.columns; j++) {
        double weight = 0, bias = 0;
        for (int64_t at = j; at < p.rows * p.columns; at += p.columns) {
            weight += tide_out_grad(call, Y, at) * normal_at(call, &p, at);
            bias += tide_out_grad(call, Y, at);
        }
        tide_give_grad(call, WEIGHT, j, weight);
        tide_give_grad(call, BIAS, j, bias);
    }
}

#define NORM(NAME)                                                                                           \
    const struct tide_op tide_op_of_##NAME = {                                                               \
        .name = #NAME,                                                                                       \
        .shape = shape,                                                                                      \
        .each = 8,                                                                                           \
        .reads_in = {[X] = 1U << X | 1U << WEIGHT, [WEIGHT] = 1U << X, [BIAS] = 1U << X},                    \
        .reads_out = {[X] = 1U << MEAN | 1U << INVERSE,                                                      \
                      [WEIGHT] = 1U << MEAN | 1U << INVERSE,                                                 \
                      [BIAS] = 1U << MEAN | 1U << INVERSE},                                                  \
        .reference_forward = reference_forward,                                                              \
        .reference_backward = reference_backward,                                                            \
    };
NORM(norm)
NORM(batchnorm)

int tide_op_norm(struct tide_graph *graph, int x, int weight, int bias, float epsilon)
{
    struct tide_node node = {.op = &tide_op_of_norm, .in = {x, weight, bias}, .in_count = 3, .real = epsilon};
    return tide_graph_append(graph, &node);
}

int tide_op_batchnorm(struct tide_graph *graph, int x, const struct tide_batchnorm *norm)
{
    struct tide_node node = {.op = &tide_op_of_batchnorm,
                             .in = {x, norm->weight, norm->bias, norm->mean, norm->variance},
                             .in_count = 5,
                             .real = norm->epsilon};
    return tide_graph_append(graph, &node);
}
