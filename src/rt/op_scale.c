/*
 * op_scale.c - (N, C) times a number: how much of an adapter counts.
 */
#include "rt/cpu/kernel.h"
#include "rt/op.h"
#include "rt/reference.h"
#include "rt/cpu/threads.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (x->dtype != TIDE_F32 && x->dtype != TIDE_BF16)
        return tide_graph_fail(graph, "scale: '%s' has no numbers to scale", x->name);
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "scaled", TIDE_ACTIVATION, x->dtype, 2, dims);
    return node->out[0] < 0 ? -1 : 0;
}

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

static void scale_some(void *context, int64_t first, int64_t last, int thread)
{
    const struct scaling *s = context;
    (void)thread;
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

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return (double)tide_tensor_count(&graph->tensors[node->in[0]]);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++)
        tide_set_out(call, 0, i, tide_in(call, 0, i) * call->node->real);
}

static void reference_backward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++)
        tide_give_grad(call, 0, i, tide_out_grad(call, 0, i) * call->node->real);
}

const struct tide_op tide_op_of_scale = {
    .name = "scale",
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .work = work,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_scale(struct tide_graph *graph, int x, float by)
{
    struct tide_node node = {.op = &tide_op_of_scale, .in = {x}, .in_count = 1, .real = by};
    return tide_graph_append(graph, &node);
}
