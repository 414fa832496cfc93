/*
 * cpu_soft.c - cross-entropy with soft targets, and squared errors, on processors. On one thread, because
 * there are only a few hundred boards and their losses must be added in a fixed order.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/op_soft.h"

#include <math.h>

/* Computes e^(x - most) of a row and returns the sum. */
TIDE_KERNEL(float, raise, (float *restrict raised, const float *restrict x, float most, int64_t count),
            (raised, x, most, count))
{
    float sum = 0;
    for (int64_t j = 0; j < count; j++)
        raised[j] = tide_exp(x[j] - most);
    for (int64_t j = 0; j < count; j++)
        sum += raised[j];
    return sum;
}

/* Returns the loss of a row. raised[] / *ret_sum are probabilities; *ret_all is the sum of its targets. */
static double row_loss(const float *x, const float *targets, int64_t count, float *raised, float *ret_sum,
                       double *ret_all)
{
    float most = x[0];
    double all = 0, along = 0;
    for (int64_t j = 0; j < count; j++) {
        most = x[j] > most ? x[j] : most;
        all += targets[j];
        along += (double)targets[j] * x[j];
    }
    *ret_sum = raise(raised, x, most, count);
    *ret_all = all;
    return all * (most + log(*ret_sum)) - along;
}

static void walk(const struct tide_call *call, float *x_grad)
{
    const struct tide_tensor *t = &call->graph->tensors[call->node->in[X]];
    int64_t rows = tide_tensor_rows(t), columns = tide_tensor_columns(t);
    float *raised = call->scratch;
    double loss = 0, share = tide_soft_share(call), slope = share * call->loss_scale;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)call->in[X] + i * columns,
                    *targets = (const float *)call->in[TARGETS] + i * columns;
        float sum;
        double all;
        loss += row_loss(x, targets, columns, raised, &sum, &all);
        float by = (float)(slope * all / sum);
        for (int64_t j = 0; x_grad && j < columns; j++)
            x_grad[i * columns + j] = raised[j] * by - targets[j] * (float)slope;
    }
    *(float *)call->out[0] = (float)(loss * share);
}

static void forward(const struct tide_call *call)
{
    walk(call, NULL);
}

static void backward(const struct tide_call *call)
{
    walk(call, call->in_grad[X]);
}

static size_t scratch(const struct tide_need *n)
{
    return (size_t)tide_tensor_columns(&n->graph->tensors[n->node->in[X]]) * sizeof(float);
}

const struct tide_cpu_kernels tide_cpu_soft = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};

/* ---- squared errors */

static void square(const struct tide_call *call, float *x_grad)
{
    const float *x = call->in[X], *targets = call->in[TARGETS];
    int64_t count = tide_tensor_count(&call->graph->tensors[call->node->in[X]]);
    double loss = 0, share = tide_soft_share(call), slope = 2 * share * call->loss_scale;
    for (int64_t i = 0; i < count; i++) {
        double error = (double)x[i] - targets[i];
        loss += error * error;
        if (x_grad)
            x_grad[i] = (float)(error * slope);
    }
    *(float *)call->out[0] = (float)(loss * share);
}

static void square_forward(const struct tide_call *call)
{
    square(call, NULL);
}

static void square_backward(const struct tide_call *call)
{
    square(call, call->in_grad[X]);
}

const struct tide_cpu_kernels tide_cpu_squared = {
    .forward = square_forward,
    .backward = square_backward,
};
