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

static enum tide_dtype dtype_of(const struct tide_call *call)
{
    return call->graph->tensors[call->node->in[0]].dtype;
}

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
    const struct tide_call *call = context;
    enum tide_dtype dtype = dtype_of(call);
    for (int64_t i = first; i < last; i += ROOM) {
        float x_room[ROOM], y[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        const float *x = numbers_at(call->in[0], dtype, i, count, x_room);
        forward_some(y, x, count);
        tide_rows_convert_here((void *)at(call->out[0], dtype, i), dtype, y, TIDE_F32, count);
    }
}

static void backward_stretch(void *context, int64_t first, int64_t last)
{
    const struct tide_call *call = context;
    enum tide_dtype dtype = dtype_of(call);
    for (int64_t i = first; i < last; i += ROOM) {
        float x_room[ROOM], g_room[ROOM], had[ROOM], to[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        void *in_grad = (void *)at(call->in_grad[0], dtype, i);
        const float *x = numbers_at(call->in[0], dtype, i, count, x_room),
                    *g = numbers_at(call->out_grad[0], dtype, i, count, g_room);
        backward_some(to, g, x, count);
        if (call->adds & 1) {
            tide_rows_convert_here(had, TIDE_F32, in_grad, dtype, count);
            for (int64_t j = 0; j < count; j++)
                to[j] += had[j];
        }
        tide_rows_convert_here(in_grad, dtype, to, TIDE_F32, count);
    }
}

static void do_all(const struct tide_call *call, tide_work *work)
{
    tide_parallel(tide_tensor_count(&call->graph->tensors[call->node->in[0]]), 4096, work, (void *)call);
}

static void forward(const struct tide_call *call)
{
    do_all(call, forward_stretch);
}

static void backward(const struct tide_call *call)
{
    if (call->in_grad[0])
        do_all(call, backward_stretch);
}

const struct tide_cpu_kernels tide_cpu_gelu = {
    .forward = forward,
    .backward = backward,
};
