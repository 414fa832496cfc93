/*
 * cpu_tanh.c - tanh on processors, on one thread: there is one number per board.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"

TIDE_KERNEL(void, forward_some, (float *restrict y, const float *restrict x, int64_t count), (y, x, count))
{
    for (int64_t i = 0; i < count; i++)
        y[i] = tide_tanh(x[i]);
}

static void forward(const struct tide_call *call)
{
    forward_some(call->out[0], call->in[0], tide_tensor_count(&call->graph->tensors[call->node->in[0]]));
}

static void backward(const struct tide_call *call)
{
    const float *g = call->out_grad[0], *y = call->out[0];
    float *to = call->in_grad[0];
    int64_t count = tide_tensor_count(&call->graph->tensors[call->node->in[0]]);
    for (int64_t i = 0; to && i < count; i++)
        to[i] = g[i] * (1 - y[i] * y[i]) + (call->adds & 1 ? to[i] : 0);
}

const struct tide_cpu_kernels tide_cpu_tanh = {
    .forward = forward,
    .backward = backward,
};
