/*
 * cpu_scale.c - numbers times a number, on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/threads.h"

struct scaling {
    void *to;
    const void *from;
    enum tide_dtype dtype;
    float by;
    bool adds;
};

TIDE_KERNEL(void, scale_some, (void *context, int64_t first, int64_t last), (context, first, last))
{
    const struct scaling *s = context;
    const float by = s->by, *from = s->from;
    const tide_bf16 *half_from = s->from;
    const bool adds = s->adds;
    float *to = s->to;
    tide_bf16 *half = s->to;
    for (int64_t i = first; s->dtype == TIDE_F32 && i < last; i++)
        to[i] = from[i] * by + (adds ? to[i] : 0);
    for (int64_t i = first; s->dtype == TIDE_BF16 && i < last; i++)
        half[i] = tide_to_bf16(tide_from_bf16(half_from[i]) * by + (adds ? tide_from_bf16(half[i]) : 0));
}

static void scale(const struct tide_call *call, void *to, const void *from, bool adds)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[0]];
    struct scaling s = {to, from, y->dtype, call->node->real, adds};
    tide_parallel(tide_tensor_count(y), 16384, scale_some, &s);
}

static void forward(const struct tide_call *call)
{
    scale(call, call->out[0], call->in[0], false);
}

static void backward(const struct tide_call *call)
{
    scale(call, call->in_grad[0], call->out_grad[0], call->adds & 1);
}

const struct tide_cpu_kernels tide_cpu_scale = {
    .forward = forward,
    .backward = backward,
};
