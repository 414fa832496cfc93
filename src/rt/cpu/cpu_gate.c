/*
 * cpu_gate.c - pools and gates on processors, in parallel over boards.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/threads.h"
#include "rt/op_gate.h"

/* One board; open[] is the sigmoid of its gate. */
TIDE_KERNEL(void, gate_board,
            (float *restrict y, float *restrict open, const float *restrict x, const float *restrict gate,
             int64_t cells, int64_t columns),
            (y, open, x, gate, cells, columns))
{
    for (int64_t j = 0; j < columns; j++)
        open[j] = 1.0F / (1.0F + tide_exp(-gate[j]));
    for (int64_t i = 0; i < cells; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * columns + j] = x[i * columns + j] * open[j];
}

/* The same, with `added` added unless it is NULL, and ReLU. */
TIDE_KERNEL(void, gate_and_end,
            (float *restrict y, float *restrict open, const float *restrict x, const float *restrict gate,
             const float *restrict added, int64_t cells, int64_t columns),
            (y, open, x, gate, added, cells, columns))
{
    for (int64_t j = 0; j < columns; j++)
        open[j] = 1.0F / (1.0F + tide_exp(-gate[j]));
    for (int64_t i = 0; i < cells * columns; i += columns)
        for (int64_t j = 0; j < columns; j++) {
            float sum = x[i + j] * open[j] + (added ? added[i + j] : 0);
            y[i + j] = sum > 0 ? sum : 0;
        }
}

TIDE_KERNEL(void, x_backward,
            (float *restrict x_grad, int adds, float *restrict open, const float *restrict g,
             const float *restrict gate, int64_t cells, int64_t columns),
            (x_grad, adds, open, g, gate, cells, columns))
{
    for (int64_t j = 0; j < columns; j++)
        open[j] = 1.0F / (1.0F + tide_exp(-gate[j]));
    for (int64_t i = 0; i < cells; i++)
        for (int64_t j = 0; j < columns; j++)
            x_grad[i * columns + j] = (adds ? x_grad[i * columns + j] : 0) + g[i * columns + j] * open[j];
}

TIDE_KERNEL(void, gate_backward,
            (float *restrict gate_grad, int adds, float *restrict sums, const float *restrict g,
             const float *restrict x, const float *restrict gate, int64_t cells, int64_t columns),
            (gate_grad, adds, sums, g, x, gate, cells, columns))
{
    for (int64_t j = 0; j < columns; j++)
        sums[j] = 0;
    for (int64_t i = 0; i < cells; i++)
        for (int64_t j = 0; j < columns; j++)
            sums[j] += g[i * columns + j] * x[i * columns + j];
    for (int64_t j = 0; j < columns; j++) {
        float open = 1.0F / (1.0F + tide_exp(-gate[j]));
        gate_grad[j] = (adds ? gate_grad[j] : 0) + sums[j] * open * (1.0F - open);
    }
}

struct boards {
    const struct tide_call *call;
    int64_t count, cells, columns;
};

static struct boards boards_of(const struct tide_call *call)
{
    const struct tide_tensor *x = &call->graph->tensors[call->node->in[X]];
    int of_boards = call->node->op == &tide_op_of_pool ? call->node->out[0] : call->node->in[GATE];
    int64_t count = tide_tensor_rows(&call->graph->tensors[of_boards]);
    return (struct boards){call, count, tide_tensor_rows(x) / count, tide_tensor_columns(x)};
}

static void forward_boards(void *context, int64_t first, int64_t last)
{
    const struct boards *b = context;
    const struct tide_call *call = b->call;
    const float *added = tide_added(call);
    float *room = (float *)call->scratch + tide_thread() * b->columns;
    int64_t board = b->cells * b->columns;
    for (int64_t i = first; i < last; i++) {
        float *y = (float *)call->out[0] + i * board;
        const float *x = (const float *)call->in[X] + i * board,
                    *gate = (const float *)call->in[GATE] + i * b->columns;
        if (call->node->relu)
            gate_and_end(y, room, x, gate, added ? added + i * board : NULL, b->cells, b->columns);
        else
            gate_board(y, room, x, gate, b->cells, b->columns);
    }
}

static void backward_boards(void *context, int64_t first, int64_t last)
{
    const struct boards *b = context;
    const struct tide_call *call = b->call;
    float *room = (float *)call->scratch + tide_thread() * b->columns;
    int64_t board = b->cells * b->columns;
    for (int64_t i = first; i < last; i++) {
        const float *gate = (const float *)call->in[GATE] + i * b->columns,
                    *g = (const float *)call->out_grad[0] + i * board;
        if (call->in_grad[GATE])
            gate_backward((float *)call->in_grad[GATE] + i * b->columns, call->adds >> GATE & 1, room, g,
                          (const float *)call->in[X] + i * board, gate, b->cells, b->columns);
        if (call->in_grad[X])
            x_backward((float *)call->in_grad[X] + i * board, call->adds >> X & 1, room, g, gate, b->cells,
                       b->columns);
    }
}

static void do_boards(const struct tide_call *call, tide_work *work)
{
    struct boards b = boards_of(call);
    tide_parallel(b.count, 1 + 16384 / (b.cells * b.columns), work, &b);
}

static void forward(const struct tide_call *call)
{
    do_boards(call, forward_boards);
}

static void backward(const struct tide_call *call)
{
    do_boards(call, backward_boards);
}

/* A row for each thread. */
static size_t scratch(const struct tide_need *n)
{
    return (size_t)tide_threads() * (size_t)tide_tensor_columns(&n->graph->tensors[n->node->in[X]]) *
           sizeof(float);
}

const struct tide_cpu_kernels tide_cpu_gate = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};

/* ---- pool */

TIDE_KERNEL(void, pool_board, (float *restrict y, const float *restrict x, int64_t cells, int64_t columns),
            (y, x, cells, columns))
{
    for (int64_t j = 0; j < columns; j++)
        y[j] = 0;
    for (int64_t i = 0; i < cells; i++)
        for (int64_t j = 0; j < columns; j++)
            y[j] += x[i * columns + j];
    for (int64_t j = 0; j < columns; j++)
        y[j] /= (float)cells;
}

TIDE_KERNEL(void, spread_board,
            (float *restrict to, int adds, const float *restrict g, int64_t cells, int64_t columns),
            (to, adds, g, cells, columns))
{
    float share = 1.0F / (float)cells;
    for (int64_t i = 0; i < cells; i++)
        for (int64_t j = 0; j < columns; j++)
            to[i * columns + j] = (adds ? to[i * columns + j] : 0) + g[j] * share;
}

static void pool_boards(void *context, int64_t first, int64_t last)
{
    const struct boards *b = context;
    for (int64_t i = first; i < last; i++)
        pool_board((float *)b->call->out[0] + i * b->columns,
                   (const float *)b->call->in[X] + i * b->cells * b->columns, b->cells, b->columns);
}

static void spread_boards(void *context, int64_t first, int64_t last)
{
    const struct boards *b = context;
    for (int64_t i = first; i < last; i++)
        spread_board((float *)b->call->in_grad[X] + i * b->cells * b->columns, b->call->adds & 1,
                     (const float *)b->call->out_grad[0] + i * b->columns, b->cells, b->columns);
}

static void pool_forward(const struct tide_call *call)
{
    do_boards(call, pool_boards);
}

static void pool_backward(const struct tide_call *call)
{
    if (call->in_grad[X])
        do_boards(call, spread_boards);
}

const struct tide_cpu_kernels tide_cpu_pool = {
    .forward = pool_forward,
    .backward = pool_backward,
};
