/*
 * cpu_scale.c - numbers times a number, on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/threads.h"

TIDE_KERNEL(void, scale_f32, (float *to, const float *from, int64_t count, float by, int adds),
            (to, from, count, by, adds))
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i] * by + (adds ? to[i] : 0);
}

TIDE_KERNEL(void, scale_bf16, (tide_bf16 * to, const tide_bf16 *from, int64_t count, float by, int adds),
            (to, from, count, by, adds))
{
    for (int64_t i = 0; i < count; i++)
        to[i] = tide_narrow(tide_bits_float((uint32_t)from[i] << 16) * by +
                            (adds ? tide_bits_float((uint32_t)to[i] << 16) : 0));
}

struct scaling {
    void *to;
    const void *from;
    enum tide_dtype dtype;
    float by;
    bool adds;
};

static void scale_some(void *context, int64_t first, int64_t last)
{
    const struct scaling *s = context;
    if (s->dtype == TIDE_BF16)
        scale_bf16((tide_bf16 *)s->to + first, (const tide_bf16 *)s->from + first, last - first, s->by,
                   s->adds);
    else
        scale_f32((float *)s->to + first, (const float *)s->from + first, last - first, s->by, s->adds);
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
    .op = &tide_op_of_scale,
    .forward = forward,
    .backward = backward,
};
