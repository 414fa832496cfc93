/*
 * cpu_norm.c - layer normalisation on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_norm.h"

#include <math.h>

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

static void forward_rows(void *context, int64_t first, int64_t last)
{
    const struct norm *n = context;
    const struct tide_call *call = n->call;
    float *room = n->scratch + tide_thread() * n->columns;
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

static void backward_rows(void *context, int64_t first, int64_t last)
{
    const struct norm *n = context;
    const struct tide_call *call = n->call;
    float *room = n->scratch + tide_thread() * n->columns;
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
            float g = y_grad ? y_grad[i * stride + j] : tide_from_bf16(y_grad16[i * stride + j]);
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

/* By strips of columns, so that rows are always added in order. */
static void backward_strips(void *context, int64_t first, int64_t last)
{
    const struct norm *n = context;
    const struct tide_call *call = n->call;
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

static size_t scratch(const struct tide_need *n)
{
    const struct tide_tensor *y = &n->graph->tensors[n->node->out[Y]];
    return y->dtype == TIDE_BF16 ? (size_t)tide_threads() * (size_t)tide_tensor_columns(y) * 4 : 0;
}

const struct tide_cpu_kernels tide_cpu_norm = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
