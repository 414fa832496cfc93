/*
 * cpu_batchnorm.c - batch normalisation on processors.
 *
 * Rows are cut into pieces of fixed length, so that each number is the same however many threads there are. A
 * piece is summed in f32 while it is in the cache; pieces are combined in order, in f64. In the forward pass
 * a piece has its own mean and the squares around it, which lose no precision if means are large.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/threads.h"
#include "rt/op_norm.h"

#include <math.h>

enum { PIECE = 128, STRIP = 32 }; /* rows, columns */

struct batch {
    const struct tide_call *call;
    int64_t rows, columns, pieces;
    float *sums; /* two rows per piece: forward means and squares, backward sums and products */
    float *by;   /* three rows: factors and summands of each column */
};

static int64_t pieces_of(int64_t rows)
{
    return (rows + PIECE - 1) / PIECE;
}

static struct batch batch_of(const struct tide_call *call)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[Y]];
    struct batch b = {.call = call, .rows = y->dims[0], .columns = y->dims[1], .sums = call->scratch};
    b.pieces = pieces_of(b.rows);
    b.by = b.sums + 2 * b.pieces * b.columns;
    return b;
}

static int64_t rows_in(const struct batch *b, int64_t piece)
{
    return b->rows - piece * PIECE < PIECE ? b->rows - piece * PIECE : PIECE;
}

/* ---- forward */

TIDE_INLINE void strip_moments(float *restrict mean, float *restrict squares, const float *restrict x,
                               int64_t rows, int64_t stride, int64_t width)
{
    float sum[STRIP] = {0}, square[STRIP] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++)
            sum[j] += x[i * stride + j];
    for (int64_t j = 0; j < width; j++)
        mean[j] = sum[j] /= (float)rows;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++)
            square[j] += (x[i * stride + j] - sum[j]) * (x[i * stride + j] - sum[j]);
    for (int64_t j = 0; j < width; j++)
        squares[j] = square[j];
}

TIDE_KERNEL(void, moments,
            (float *restrict mean, float *restrict squares, const float *restrict x, int64_t rows,
             int64_t columns),
            (mean, squares, x, rows, columns))
{
    int64_t j = 0;
    for (; j + STRIP <= columns; j += STRIP)
        strip_moments(mean + j, squares + j, x + j, rows, columns, STRIP);
    if (j < columns)
        strip_moments(mean + j, squares + j, x + j, rows, columns, columns - j);
}

static void sum_pieces(void *context, int64_t first, int64_t last)
{
    const struct batch *b = context;
    for (int64_t piece = first; piece < last; piece++)
        moments(b->sums + 2 * piece * b->columns, b->sums + (2 * piece + 1) * b->columns,
                (const float *)b->call->in[X] + piece * PIECE * b->columns, rows_in(b, piece), b->columns);
}

static void learn(const struct tide_call *call, int operand, int64_t column, double of_batch)
{
    float *running = (float *)call->in[operand] + column;
    if (isfinite(of_batch))
        *running = (float)(*running + (of_batch - *running) * tide_batchnorm_share);
}

static void join_columns(void *context, int64_t first, int64_t last)
{
    const struct batch *b = context;
    const struct tide_call *call = b->call;
    for (int64_t j = first; j < last; j++) {
        double mean = 0, squares = 0;
        for (int64_t piece = 0; piece < b->pieces; piece++) {
            double before = (double)(piece * PIECE), more = (double)rows_in(b, piece),
                   apart = b->sums[2 * piece * b->columns + j] - mean, share = more / (before + more);
            mean += apart * share;
            squares += b->sums[(2 * piece + 1) * b->columns + j] + apart * apart * before * share;
        }
        double inverse = 1 / sqrt(squares / (double)b->rows + call->node->real);
        ((float *)call->out[MEAN])[j] = (float)mean;
        ((float *)call->out[INVERSE])[j] = (float)inverse;
        b->by[j] = (float)(inverse * ((const float *)call->in[WEIGHT])[j]);
        if (call->learns) {
            learn(call, RUNNING_MEAN, j, mean);
            learn(call, RUNNING_VARIANCE, j, squares / (double)(b->rows - 1));
        }
    }
}

TIDE_KERNEL(void, normalise,
            (float *restrict y, const float *restrict x, const float *restrict mean, const float *restrict by,
             const float *restrict bias, int64_t rows, int64_t columns),
            (y, x, mean, by, bias, rows, columns))
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            y[i * columns + j] = (x[i * columns + j] - mean[j]) * by[j] + bias[j];
}

static void normalise_rows(void *context, int64_t first, int64_t last)
{
    const struct batch *b = context;
    const struct tide_call *call = b->call;
    normalise((float *)call->out[Y] + first * b->columns, (const float *)call->in[X] + first * b->columns,
              call->out[MEAN], b->by, call->in[BIAS], last - first, b->columns);
}

static void forward(const struct tide_call *call)
{
    struct batch b = batch_of(call);
    tide_parallel(b.pieces, 1, sum_pieces, &b);
    tide_parallel(b.columns, 1 + 4096 / b.pieces, join_columns, &b);
    tide_parallel(b.rows, 1 + 16384 / b.columns, normalise_rows, &b);
}

/* ---- backward */

TIDE_INLINE void strip_slopes(float *restrict sums, float *restrict products, const float *restrict g,
                              const float *restrict x, const float *restrict mean, int64_t rows,
                              int64_t stride, int64_t width)
{
    float sum[STRIP] = {0}, product[STRIP] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            sum[j] += g[i * stride + j];
            product[j] += g[i * stride + j] * (x[i * stride + j] - mean[j]);
        }
    for (int64_t j = 0; j < width; j++) {
        sums[j] = sum[j];
        products[j] = product[j];
    }
}

TIDE_KERNEL(void, slopes,
            (float *restrict sums, float *restrict products, const float *restrict g, const float *restrict x,
             const float *restrict mean, int64_t rows, int64_t columns),
            (sums, products, g, x, mean, rows, columns))
{
    int64_t j = 0;
    for (; j + STRIP <= columns; j += STRIP)
        strip_slopes(sums + j, products + j, g + j, x + j, mean + j, rows, columns, STRIP);
    if (j < columns)
        strip_slopes(sums + j, products + j, g + j, x + j, mean + j, rows, columns, columns - j);
}

static void slope_pieces(void *context, int64_t first, int64_t last)
{
    const struct batch *b = context;
    const struct tide_call *call = b->call;
    for (int64_t piece = first; piece < last; piece++)
        slopes(b->sums + 2 * piece * b->columns, b->sums + (2 * piece + 1) * b->columns,
               (const float *)call->out_grad[Y] + piece * PIECE * b->columns,
               (const float *)call->in[X] + piece * PIECE * b->columns, call->out[MEAN], rows_in(b, piece),
               b->columns);
}

static void give(const struct tide_call *call, int operand, int64_t j, double gradient)
{
    float *to = call->in_grad[operand];
    if (to)
        to[j] = (float)(call->adds >> operand & 1 ? to[j] + gradient : gradient);
}

/* Computes the gradients of the parameters, and by[]: x's gradient is g by[0] + (x - mean) by[1] + by[2]. */
static void join_slopes(void *context, int64_t first, int64_t last)
{
    const struct batch *b = context;
    const struct tide_call *call = b->call;
    for (int64_t j = first; j < last; j++) {
        double sum = 0, product = 0, inverse = ((const float *)call->out[INVERSE])[j];
        for (int64_t piece = 0; piece < b->pieces; piece++) {
            sum += b->sums[2 * piece * b->columns + j];
            product += b->sums[(2 * piece + 1) * b->columns + j];
        }
        give(call, WEIGHT, j, product * inverse);
        give(call, BIAS, j, sum);
        if (!call->in_grad[X])
            continue;
        double scale = inverse * ((const float *)call->in[WEIGHT])[j];
        b->by[j] = (float)scale;
        b->by[b->columns + j] = (float)(-scale * inverse * inverse * product / (double)b->rows);
        b->by[2 * b->columns + j] = (float)(-scale * sum / (double)b->rows);
    }
}

TIDE_KERNEL(void, x_backward,
            (float *restrict x_grad, int adds, const float *restrict g, const float *restrict x,
             const float *restrict mean, const float *restrict by, int64_t rows, int64_t columns),
            (x_grad, adds, g, x, mean, by, rows, columns))
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float slope = g[i * columns + j] * by[j] + (x[i * columns + j] - mean[j]) * by[columns + j] +
                          by[2 * columns + j];
            x_grad[i * columns + j] = adds ? x_grad[i * columns + j] + slope : slope;
        }
}

static void backward_rows(void *context, int64_t first, int64_t last)
{
    const struct batch *b = context;
    const struct tide_call *call = b->call;
    x_backward((float *)call->in_grad[X] + first * b->columns, call->adds >> X & 1,
               (const float *)call->out_grad[Y] + first * b->columns,
               (const float *)call->in[X] + first * b->columns, call->out[MEAN], b->by, last - first,
               b->columns);
}

static void backward(const struct tide_call *call)
{
    struct batch b = batch_of(call);
    tide_parallel(b.pieces, 1, slope_pieces, &b);
    tide_parallel(b.columns, 1 + 4096 / b.pieces, join_slopes, &b);
    if (call->in_grad[X])
        tide_parallel(b.rows, 1 + 16384 / b.columns, backward_rows, &b);
}

static size_t scratch(const struct tide_need *n)
{
    const struct tide_tensor *x = &n->graph->tensors[n->node->in[X]];
    int64_t rows = 2 * pieces_of(tide_tensor_rows(x)) + (n->direction == TIDE_FORWARD ? 1 : 3);
    return (size_t)(rows * tide_tensor_columns(x)) * sizeof(float);
}

const struct tide_cpu_kernels tide_cpu_batchnorm = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
