/*
 * cpu_pool.c - the mean over the cells of boards, on processors, in parallel over boards.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/threads.h"

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

struct boards {
    const struct tide_call *call;
    int64_t count, cells, columns;
};

static struct boards boards_of(const struct tide_call *call)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[0]];
    return (struct boards){call, y->dims[0], call->node->numbers[0], y->dims[1]};
}

static void pool_boards(void *context, int64_t first, int64_t last)
{
    const struct boards *b = context;
    for (int64_t i = first; i < last; i++)
        pool_board((float *)b->call->out[0] + i * b->columns,
                   (const float *)b->call->in[0] + i * b->cells * b->columns, b->cells, b->columns);
}

static void spread_boards(void *context, int64_t first, int64_t last)
{
    const struct boards *b = context;
    for (int64_t i = first; i < last; i++)
        spread_board((float *)b->call->in_grad[0] + i * b->cells * b->columns, b->call->adds & 1,
                     (const float *)b->call->out_grad[0] + i * b->columns, b->cells, b->columns);
}

static void forward(const struct tide_call *call)
{
    struct boards b = boards_of(call);
    tide_parallel(b.count, 1 + 16384 / (b.cells * b.columns), pool_boards, &b);
}

static void backward(const struct tide_call *call)
{
    struct boards b = boards_of(call);
    if (call->in_grad[0])
        tide_parallel(b.count, 1 + 16384 / (b.cells * b.columns), spread_boards, &b);
}

const struct tide_cpu_kernels tide_cpu_pool = {
    .op = &tide_op_of_pool,
    .forward = forward,
    .backward = backward,
};
