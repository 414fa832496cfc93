/*
 * cpu_pointwise.c - operators that treat each number by itself, on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"

enum { ROOM = 1024 }; /* numbers at a time */

/* An operator on numbers in f32. real: the node's, if the operator has one. */
struct pointwise {
    void (*y)(float *restrict y, const float *restrict x, int64_t count, float real);
    /* y's gradient g times the slope at `at`: at x, or at y if reads_y is true. */
    void (*slope)(float *restrict to, const float *restrict g, const float *restrict at, int64_t count,
                  float real);
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
        p->op->y(y, numbers_at(call->in[0], p->dtype, i, count, x_room), count, call->node->real);
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
        float read_room[ROOM], g_room[ROOM], had[ROOM], to_room[ROOM];
        int64_t count = last - i < ROOM ? last - i : ROOM;
        void *in_grad = at(call->in_grad[0], p->dtype, i);
        float *to = p->dtype == TIDE_F32 && !(call->adds & 1) ? in_grad : to_room;
        const float *g = numbers_at(call->out_grad[0], p->dtype, i, count, g_room),
                    *read = reads ? numbers_at(reads, p->dtype, i, count, read_room) : NULL;
        p->op->slope(to, g, read, count, call->node->real);
        if (call->adds & 1) {
            tide_rows_convert_here(had, TIDE_F32, in_grad, p->dtype, count);
            for (int64_t j = 0; j < count; j++)
                to[j] += had[j];
        }
        if (to == to_room)
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

#define UNUSED __attribute__((unused))
#define Y(name)                                                                                              \
    TIDE_KERNEL(void, name##_y,                                                                              \
                (float *restrict y, const float *restrict x, int64_t count, UNUSED float real),              \
                (y, x, count, real))
#define SLOPE(name)                                                                                          \
    TIDE_KERNEL(void, name##_slope,                                                                          \
                (float *restrict to, const float *restrict g, UNUSED const float *restrict at,               \
                 int64_t count, UNUSED float real),                                                          \
                (to, g, at, count, real))

static const float root = 0.7978845608F, cubic = 0.044715F;

Y(gelu)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = 0.5F * x[i] * (1.0F + tide_tanh(root * (x[i] + cubic * x[i] * x[i] * x[i])));
}

SLOPE(gelu)
{
    for (int64_t i = 0; i < count; i++) {
        float x = at[i], t = tide_tanh(root * (x + cubic * x * x * x));
        float slope = 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * root * (1.0F + 3.0F * cubic * x * x);
        to[i] = g[i] * slope;
    }
}

Y(relu)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

SLOPE(relu)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = at[i] > 0 ? g[i] : 0;
}

Y(scale)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * real;
}

SLOPE(scale)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = g[i] * real;
}

Y(tanh)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = tide_tanh(x[i]);
}

static void tanh_slope(float *restrict to, const float *restrict g, const float *restrict at, int64_t count,
                       UNUSED float real)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = g[i] * (1 - at[i] * at[i]);
}

POINTWISE(gelu, .y = gelu_y, .slope = gelu_slope, .grain = 4096)
POINTWISE(relu, .y = relu_y, .slope = relu_slope, .reads_y = true, .grain = 16384)
POINTWISE(scale, .y = scale_y, .slope = scale_slope, .grain = 16384)
POINTWISE(tanh, .y = tanh_y, .slope = tanh_slope, .reads_y = true, .grain = 4096)

/* ---- the sum of two tensors, whose gradient passes through */

static void add_forward(const struct tide_call *call)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[0]];
    tide_rows_add(call->out[0], call->in[0], call->in[1], y->dtype, tide_tensor_count(y));
}

const struct tide_cpu_kernels tide_cpu_add = {.forward = add_forward};
