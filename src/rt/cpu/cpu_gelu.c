/*
 * cpu_gelu.c - GELU on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"

enum { ROOM = 1024 }; /* numbers at a time */

static const float root = 0.7978845608F, cubic = 0.044715F;

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

/* Returns the numbers from `index` on in f32, in place or in `room`. Prefetches those after them. */
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

static void forward_stretch(void *context, int64_t first, int64_t last)
{
    const struct stretch *s = context;
    for (int64_t i = first; i < last; i += ROOM) {
        float x_room[ROOM], y[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        const float *x = numbers_at(s->call->in[0], s->dtype, i, count, x_room);
        forward_some(y, x, count);
        tide_rows_convert_here((void *)at(s->call->out[0], s->dtype, i), s->dtype, y, TIDE_F32, count);
    }
}

static void backward_stretch(void *context, int64_t first, int64_t last)
{
    const struct stretch *s = context;
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

const struct tide_cpu_kernels tide_cpu_gelu = {
    .forward = forward,
    .backward = backward,
};
