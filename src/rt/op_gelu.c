/*
 * op_gelu.c - the tanh form of GELU: y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
 */
#include "rt/cpu/kernel.h"
#include "rt/op.h"
#include "rt/reference.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"

#include <math.h>

enum { ROOM = 1024 }; /* numbers at a time */

static const float root = 0.7978845608F, cubic = 0.044715F;

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[0]];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "gelu", TIDE_ACTIVATION, x->dtype, 2, dims);
    return node->out[0] < 0 ? -1 : 0;
}

TIDE_KERNEL(void, forward_some, (float *restrict y, const float *restrict x, int64_t count), (y, x, count))
{
    for (int64_t i = 0; i < count; i++)
        y[i] = 0.5F * x[i] * (1.0F + tide_tanh(root * (x[i] + cubic * x[i] * x[i] * x[i])));
}

/* g times the slope at x */
TIDE_KERNEL(void, backward_some,
            (float *restrict to, const float *restrict g, const float *restrict x, int64_t count),
            (to, g, x, count))
{
    for (int64_t i = 0; i < count; i++) {
        float t = tide_tanh(root * (x[i] + cubic * x[i] * x[i] * x[i]));
        float slope =
            0.5F * (1.0F + t) + 0.5F * x[i] * (1.0F - t * t) * root * (1.0F + 3.0F * cubic * x[i] * x[i]);
        to[i] = g[i] * slope;
    }
}

struct stretch {
    const struct tide_call *call;
    enum tide_dtype dtype;
};

static const void *at(const void *start, enum tide_dtype dtype, int64_t index)
{
    return (const char *)start + (size_t)index * tide_dtype_bytes(dtype);
}

/* The numbers from `index` on in f32: where they are, or in `room`. Those after them are asked for. */
static const float *numbers_at(const void *start, enum tide_dtype dtype, int64_t index, int64_t count,
                               float *room)
{
    const void *from = at(start, dtype, index);
    tide_ask(at(start, dtype, index + count), count * (int64_t)tide_dtype_bytes(dtype));
    if (dtype == TIDE_F32)
        return (const float *)start + index;
    tide_rows_convert_here(room, TIDE_F32, from, dtype, count);
    return room;
}

static void forward_stretch(void *context, int64_t first, int64_t last, int thread)
{
    const struct stretch *s = context;
    (void)thread;
    for (int64_t i = first; i < last; i += ROOM) {
        float x_room[ROOM], y[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        const float *x = numbers_at(s->call->in[0], s->dtype, i, count, x_room);
        forward_some(y, x, count);
        tide_rows_convert_here((void *)at(s->call->out[0], s->dtype, i), s->dtype, y, TIDE_F32, count);
    }
}

static void backward_stretch(void *context, int64_t first, int64_t last, int thread)
{
    const struct stretch *s = context;
    (void)thread;
    for (int64_t i = first; i < last; i += ROOM) {
        float x_room[ROOM], g_room[ROOM], had[ROOM], to[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        void *in_grad = (void *)at(s->call->in_grad[0], s->dtype, i);
        const float *x = numbers_at(s->call->in[0], s->dtype, i, count, x_room),
                    *g = numbers_at(s->call->out_grad[0], s->dtype, i, count, g_room);
        backward_some(to, g, x, count);
        if (s->call->adds & 1) {
            tide_rows_convert_here(had, TIDE_F32, in_grad, s->dtype, count);
            for (int64_t j = 0; j < count; j++)
                to[j] += had[j];
        }
        tide_rows_convert_here(in_grad, s->dtype, to, TIDE_F32, count);
    }
}

static void forward(const struct tide_call *call)
{
    const struct tide_tensor *x = &call->graph->tensors[call->node->in[0]];
    struct stretch s = {call, x->dtype};
    tide_parallel(tide_tensor_count(x), 4096, forward_stretch, &s);
}

static void backward(const struct tide_call *call)
{
    const struct tide_tensor *x = &call->graph->tensors[call->node->in[0]];
    struct stretch s = {call, x->dtype};
    if (call->in_grad[0])
        tide_parallel(tide_tensor_count(x), 4096, backward_stretch, &s);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return 30.0 * (double)tide_tensor_count(&graph->tensors[node->in[0]]);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {
        double x = tide_in(call, 0, i);
        tide_set_out(call, 0, i, x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
    }
}

static void reference_backward(const struct tide_call *call)
{
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, 0)); i++) {
        double x = tide_in(call, 0, i), t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
        double t_slope = (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
        tide_give_grad(call, 0, i, tide_out_grad(call, 0, i) * ((1 + t) / 2 + x / 2 * t_slope));
    }
}

const struct tide_op tide_op_of_gelu = {
    .name = "gelu",
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .work = work,
    .reads_in = {1},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_gelu(struct tide_graph *graph, int x)
{
    struct tide_node node = {.op = &tide_op_of_gelu, .in = {x}, .in_count = 1};
    return tide_graph_append(graph, &node);
}
