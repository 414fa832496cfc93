/*
 * cpu_relu.c - ReLU on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/threads.h"

TIDE_KERNEL(void, forward_some, (float *restrict y, const float *restrict x, int64_t count), (y, x, count))
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

TIDE_KERNEL(void, backward_some,
            (float *restrict to, int adds, const float *restrict g, const float *restrict y, int64_t count),
            (to, adds, g, y, count))
{
    if (adds)
        for (int64_t i = 0; i < count; i++)
            to[i] += y[i] > 0 ? g[i] : 0;
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = y[i] > 0 ? g[i] : 0;
}

static void forward_stretch(void *context, int64_t first, int64_t last)
{
    const struct tide_call *call = context;
    forward_some((float *)call->out[0] + first, (const float *)call->in[0] + first, last - first);
}

static void backward_stretch(void *context, int64_t first, int64_t last)
{
    const struct tide_call *call = context;
    backward_some((float *)call->in_grad[0] + first, call->adds & 1, (const float *)call->out_grad[0] + first,
                  (const float *)call->out[0] + first, last - first);
}

static void forward(const struct tide_call *call)
{
    tide_parallel(tide_tensor_count(&call->graph->tensors[call->node->in[0]]), 16384, forward_stretch,
                  (void *)call);
}

static void backward(const struct tide_call *call)
{
    if (call->in_grad[0])
        tide_parallel(tide_tensor_count(&call->graph->tensors[call->node->in[0]]), 16384, backward_stretch,
                      (void *)call);
}

const struct tide_cpu_kernels tide_cpu_relu = {
    .op = &tide_op_of_relu,
    .forward = forward,
    .backward = backward,
};
