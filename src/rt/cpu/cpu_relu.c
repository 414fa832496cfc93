/*
 * cpu_relu.c - ReLU on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/threads.h"

TIDE_KERNEL(void, forward_stretch, (void *context, int64_t first, int64_t last), (context, first, last))
{
    const struct tide_call *call = context;
    const float *x = call->in[0];
    float *y = call->out[0];
    for (int64_t i = first; i < last; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

TIDE_KERNEL(void, backward_stretch, (void *context, int64_t first, int64_t last), (context, first, last))
{
    const struct tide_call *call = context;
    const float *g = call->out_grad[0], *y = call->out[0];
    float *to = call->in_grad[0];
    if (call->adds & 1)
        for (int64_t i = first; i < last; i++)
            to[i] += y[i] > 0 ? g[i] : 0;
    else
        for (int64_t i = first; i < last; i++)
            to[i] = y[i] > 0 ? g[i] : 0;
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
    .forward = forward,
    .backward = backward,
};
