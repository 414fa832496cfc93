/*
 * op_norm.c - layer normalisation: y = (x - mean) / deviation * weight + bias, row by row.
 *
 * x (N, C) is f32, y the compute type; mean and 1 / deviation of each row are kept for the backward pass.
 */
#include "rt/cpu/kernel.h"
#include "rt/op.h"
#include "rt/reference.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"

#include <math.h>

enum { X, WEIGHT, BIAS };
enum { Y, MEAN, INVERSE };

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *weight = &graph->tensors[node->in[WEIGHT]],
                             *bias = &graph->tensors[node->in[BIAS]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (x->dtype != TIDE_F32 || weight->rank != 1 || weight->dims[0] != dims[1] || bias->rank != 1 ||
        bias->dims[0] != dims[1])
        return tide_graph_fail(graph, "norm: '%s' does not fit '%s'", x->name, weight->name);
    node->out_count = 3;
    node->out[Y] = tide_graph_tensor(graph, "norm", TIDE_ACTIVATION, graph->compute, 2, dims);
    node->out[MEAN] = tide_graph_tensor(graph, "norm mean", TIDE_ACTIVATION, TIDE_F32, 1, dims);
    node->out[INVERSE] = tide_graph_tensor(graph, "norm inverse", TIDE_ACTIVATION, TIDE_F32, 1, dims);
    return graph->failed ? -1 : 0;
}

struct norm {
    const struct tide_call *call;
    int64_t rows, columns;
    enum tide_dtype dtype; /* of y */
    float *scratch;        /* one row of y for each thread */
};

static struct norm norm_of(const struct tide_call *call)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[Y]];
    return (struct norm){call, tide_tensor_rows(y), tide_tensor_columns(y), y->dtype, call->scratch};
}

TIDE_KERNEL(void, row_forward,
            (float *restrict y, const float *restrict x, const float *restrict weight,
             const float *restrict bias, int64_t columns, float epsilon, float *ret_mean, float *ret_inverse),
            (y, x, weight, bias, columns, epsilon, ret_mean, ret_inverse))
{
    float total[16] = {0}, squares[16] = {0};
    int64_t whole = columns / 16 * 16;
    float mean = 0, variance = 0;
    for (int64_t j = 0; j < whole; j += 16)
        for (int k = 0; k < 16; k++)
            total[k] += x[j + k];
    for (int64_t j = whole; j < columns; j++)
        mean += x[j];
    for (int k = 0; k < 16; k++)
        mean += total[k];
    mean /= (float)columns;
    for (int64_t j = 0; j < whole; j += 16)
        for (int k = 0; k < 16; k++)
            squares[k] += (x[j + k] - mean) * (x[j + k] - mean);
    for (int64_t j = whole; j < columns; j++)
        variance += (x[j] - mean) * (x[j] - mean);
    for (int k = 0; k < 16; k++)
        variance += squares[k];
    float inverse = 1.0F / sqrtf(variance / (float)columns + epsilon);
    for (int64_t j = 0; j < columns; j++)
        y[j] = (x[j] - mean) * inverse * weight[j] + bias[j];
    *ret_mean = mean;
    *ret_inverse = inverse;
}

static void forward_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct norm *n = context;
    const struct tide_call *call = n->call;
    float *room = n->scratch + thread * n->columns;
    for (int64_t i = first; i < last; i++) {
        float *y = n->dtype == TIDE_F32 ? (float *)call->out[Y] + i * n->columns : room;
        row_forward(y, (const float *)call->in[X] + i * n->columns, call->in[WEIGHT], call->in[BIAS],
                    n->columns, call->node->real, (float *)call->out[MEAN] + i,
                    (float *)call->out[INVERSE] + i);
        if (n->dtype == TIDE_BF16)
            tide_rows_convert_here((tide_bf16 *)call->out[Y] + i * n->columns, TIDE_BF16, y, TIDE_F32,
                                   n->columns);
    }
}

static void forward(const struct tide_call *call)
{
    struct norm n = norm_of(call);
    tide_parallel(n.rows, 16, forward_rows, &n);
}

TIDE_KERNEL(void, row_backward,
            (float *restrict x_grad, int adds, const float *restrict y_grad, const float *restrict x,
             const float *restrict weight, int64_t columns, float mean, float inverse),
            (x_grad, adds, y_grad, x, weight, columns, mean, inverse))
{
    float plain[16] = {0}, shaped[16] = {0};
    int64_t whole = columns / 16 * 16;
    float sum = 0, product = 0;
    for (int64_t j = 0; j < whole; j += 16)
        for (int k = 0; k < 16; k++) {
            float g = y_grad[j + k] * weight[j + k];
            plain[k] += g;
            shaped[k] += g * ((x[j + k] - mean) * inverse);
        }
    for (int64_t j = whole; j < columns; j++) {
        float g = y_grad[j] * weight[j];
        sum += g;
        product += g * ((x[j] - mean) * inverse);
    }
    for (int k = 0; k < 16; k++) {
        sum += plain[k];
        product += shaped[k];
    }
    sum /= (float)columns;
    product /= (float)columns;
    for (int64_t j = 0; j < columns; j++) {
        float normal = (x[j] - mean) * inverse;
        float g = (y_grad[j] * weight[j] - sum - normal * product) * inverse;
        x_grad[j] = adds ? x_grad[j] + g : g;
    }
}

static void backward_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct norm *n = context;
    const struct tide_call *call = n->call;
    float *room = n->scratch + thread * n->columns;
    for (int64_t i = first; i < last; i++) {
        const float *y_grad = (const float *)call->out_grad[Y] + i * n->columns;
        if (n->dtype == TIDE_BF16) {
            tide_rows_convert_here(room, TIDE_F32, (const tide_bf16 *)call->out_grad[Y] + i * n->columns,
                                   TIDE_BF16, n->columns);
            y_grad = room;
        }
        row_backward((float *)call->in_grad[X] + i * n->columns, call->adds >> X & 1, y_grad,
                     (const float *)call->in[X] + i * n->columns, call->in[WEIGHT], n->columns,
                     ((const float *)call->out[MEAN])[i], ((const float *)call->out[INVERSE])[i]);
    }
}

enum { STRIP = 64 };

TIDE_KERNEL(void, strip_backward,
            (float *restrict weight_grad, float *restrict bias_grad, const float *restrict y_grad,
             const tide_bf16 *restrict y_grad16, const float *restrict x, const float *restrict mean,
             const float *restrict inverse, int64_t rows, int64_t stride, int64_t width),
            (weight_grad, bias_grad, y_grad, y_grad16, x, mean, inverse, rows, stride, width))
{
    for (int64_t j = 0; j < width; j++)
        weight_grad[j] = bias_grad[j] = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            float g =
                y_grad ? y_grad[i * stride + j] : tide_bits_float((uint32_t)y_grad16[i * stride + j] << 16);
            weight_grad[j] += g * ((x[i * stride + j] - mean[i]) * inverse[i]);
            bias_grad[j] += g;
        }
}

static void give(const struct tide_call *call, int operand, int64_t first, const float *gradient,
                 int64_t count)
{
    float *to = call->in_grad[operand];
    for (int64_t k = 0; to && k < count; k++)
        to[first + k] = call->adds >> operand & 1 ? to[first + k] + gradient[k] : gradient[k];
}

/* Strips of columns, so that rows are always added in their order. */
static void backward_strips(void *context, int64_t first, int64_t last, int thread)
{
    const struct norm *n = context;
    const struct tide_call *call = n->call;
    (void)thread;
    for (int64_t strip = first; strip < last; strip++) {
        float weight_grad[STRIP], bias_grad[STRIP];
        int64_t j = strip * STRIP, width = n->columns - j < STRIP ? n->columns - j : STRIP;
        const float *wide = n->dtype == TIDE_F32 ? (const float *)call->out_grad[Y] + j : NULL;
        const tide_bf16 *narrow = n->dtype == TIDE_F32 ? NULL : (const tide_bf16 *)call->out_grad[Y] + j;
        strip_backward(weight_grad, bias_grad, wide, narrow, (const float *)call->in[X] + j, call->out[MEAN],
                       call->out[INVERSE], n->rows, n->columns, width);
        give(call, WEIGHT, j, weight_grad, width);
        give(call, BIAS, j, bias_grad, width);
    }
}

static void backward(const struct tide_call *call)
{
    struct norm n = norm_of(call);
    if (call->in_grad[WEIGHT] || call->in_grad[BIAS])
        tide_parallel((n.columns + STRIP - 1) / STRIP, 1, backward_strips, &n);
    if (call->in_grad[X])
        tide_parallel(n.rows, 16, backward_rows, &n);
}

static size_t scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction)
{
    const struct tide_tensor *y = &graph->tensors[node->out[Y]];
    (void)matmuls;
    (void)direction;
    return y->dtype == TIDE_BF16 ? (size_t)tide_threads() * (size_t)tide_tensor_columns(y) * 4 : 0;
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return 8.0 * (double)tide_tensor_count(&graph->tensors[node->in[X]]);
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
        double mean = 0,
               along = 0; /* of the gradient of the normalised row: its mean, its part along the row */
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
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .work = work,
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
