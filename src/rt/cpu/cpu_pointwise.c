/*
 * cpu_pointwise.c - operators that treat each number by itself, on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"

enum { ROOM = 1024 }; /* numbers at a time */

/* An operator on numbers in f32. */
struct pointwise {
    void (*y)(float *restrict y, const float *restrict x, int64_t count);
    /* y's gradient g times the slope at x, or at y if reads_y is true. */
    void (*slope)(float *restrict to, const float *restrict g, const float *restrict read, int64_t count);
    bool reads_y;
    int64_t grain; /* numbers that are worth a thread */
};

struct pass {
    const struct tide_call *call;
    const struct pointwise *op;
    enum tide_dtype dtype;
};

static void *at(const void *start, enum tide_dtype dtype, int64_t index)
{
    return (char *)start + (size_t)index * tide_dtype_bytes(dtype);
}

/* Returns the numbers from `index` on in f32, in place or in `room`. Prefetches those after them. */
static const float *numbers_at(const void *start, enum tide_dtype dtype, int64_t index, int64_t count,
                               float *room)
{
    const void *from = at(start, dtype, index);
    tide_ask(at(start, dtype, index + count), count * (int64_t)tide_dtype_bytes(dtype));
    if (dtype == TIDE_F32)
        return from;
    tide_rows_convert_here(room, TIDE_F32, from, dtype, count);
    return room;
}

static void forward_stretch(void *context, int64_t first, int64_t last)
{
    const struct pass *p = context;
    const struct tide_call *call = p->call;
    for (int64_t i = first; i < last; i += ROOM) {
        float x_room[ROOM], y_room[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        float *y = p->dtype == TIDE_F32 ? (float *)call->out[0] + i : y_room;
        p->op->y(y, numbers_at(call->in[0], p->dtype, i, count, x_room), count);
        if (y == y_room)
            tide_rows_convert_here(at(call->out[0], p->dtype, i), p->dtype, y, TIDE_F32, count);
    }
}

static void backward_stretch(void *context, int64_t first, int64_t last)
{
    const struct pass *p = context;
    const struct tide_call *call = p->call;
    const void *reads = p->op->reads_y ? call->out[0] : call->in[0];
    for (int64_t i = first; i < last; i += ROOM) {
        float read_room[ROOM], g_room[ROOM], had[ROOM], to[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        void *in_grad = at(call->in_grad[0], p->dtype, i);
        const float *g = numbers_at(call->out_grad[0], p->dtype, i, count, g_room),
                    *read = numbers_at(reads, p->dtype, i, count, read_room);
        p->op->slope(to, g, read, count);
        if (call->adds & 1) {
            tide_rows_convert_here(had, TIDE_F32, in_grad, p->dtype, count);
            for (int64_t j = 0; j < count; j++)
                to[j] += had[j];
        }
        tide_rows_convert_here(in_grad, p->dtype, to, TIDE_F32, count);
    }
}

static void do_all(const struct tide_call *call, const struct pointwise *op, tide_work *work)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[0]];
    struct pass pass = {call, op, y->dtype};
    tide_parallel(tide_tensor_count(y), op->grain, work, &pass);
}

#define POINTWISE(name, ...)                                                                                 \
    static const struct pointwise name##_op = {__VA_ARGS__};                                                 \
    static void name##_forward(const struct tide_call *call)                                                 \
    {                                                                                                        \
        do_all(call, &name##_op, forward_stretch);                                                           \
    }                                                                                                        \
    static void name##_backward(const struct tide_call *call)                                                \
    {                                                                                                        \
        if (call->in_grad[0])                                                                                \
            do_all(call, &name##_op, backward_stretch);                                                      \
    }                                                                                                        \
    const struct tide_cpu_kernels tide_cpu_##name = {.forward = name##_forward, .backward = name##_backward};

/* ---- each of them */

static const float root = 0.7978845608F, cubic = 0.044715F;

TIDE_KERNEL(void, gelu_y, (float *restrict y, const float *restrict x, int64_t count), (y, x, count))
{
    for (int64_t i = 0; i < count; i++)
        y[i] = 0.5F * x[i] * (1.0F + tide_tanh(root * (x[i] + cubic * x[i] * x[i] * x[i])));
}

TIDE_KERNEL(void, gelu_slope,
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

TIDE_KERNEL(void, relu_y, (float *restrict y, const float *restrict x, int64_t count), (y, x, count))
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

TIDE_KERNEL(void, relu_slope,
            (float *restrict to, const float *restrict g, const float *restrict y, int64_t count),
            (to, g, y, count))
{
    for (int64_t i = 0; i < count; i++)
        to[i] = y[i] > 0 ? g[i] : 0;
}

TIDE_KERNEL(void, tanh_y, (float *restrict y, const float *restrict x, int64_t count), (y, x, count))
{
    for (int64_t i = 0; i < count; i++)
        y[i] = tide_tanh(x[i]);
}

static void tanh_slope(float *restrict to, const float *restrict g, const float *restrict y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = g[i] * (1 - y[i] * y[i]);
}

POINTWISE(gelu, .y = gelu_y, .slope = gelu_slope, .grain = 4096)
POINTWISE(relu, .y = relu_y, .slope = relu_slope, .reads_y = true, .grain = 16384)
POINTWISE(tanh, .y = tanh_y, .slope = tanh_slope, .reads_y = true, .grain = 4096)

/* ---- the sum of two tensors, whose gradient passes through */

static void add_forward(const struct tide_call *call)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[0]];
    tide_rows_add(call->out[0], call->in[0], call->in[1], y->dtype, tide_tensor_count(y));
}

const struct tide_cpu_kernels tide_cpu_add = {.forward = add_forward};
