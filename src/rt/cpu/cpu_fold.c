/*
 * cpu_fold.c - folds on processors.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_fold.h"

#include <math.h>

TIDE_KERNEL(void, scale_row,
            (float *restrict to, const float *restrict from, const float *restrict by, int64_t columns),
            (to, from, by, columns))
{
    for (int64_t j = 0; j < columns; j++)
        to[j] = from[j] * by[j];
}

struct folding {
    const struct tide_call *call;
    int64_t columns;
    enum tide_dtype dtype;
    float *by, *room; /* one row; one row per thread */
};

static void fold_rows(void *context, int64_t first, int64_t last)
{
    const struct folding *f = context;
    float *room = f->room + tide_thread() * f->columns;
    size_t row = tide_row_bytes(f->dtype, f->columns);
    for (int64_t i = first; i < last; i++) {
        const char *from = (const char *)f->call->in[WEIGHT] + (size_t)i * row;
        char *to = (char *)f->call->out[FOLDED] + (size_t)i * row;
        if (f->dtype == TIDE_F32) {
            scale_row((float *)(void *)to, (const float *)(const void *)from, f->by, f->columns);
            continue;
        }
        tide_rows_convert_here(room, TIDE_F32, from, f->dtype, f->columns);
        for (int64_t j = 0; j < f->columns; j++)
            room[j] *= f->by[j];
        tide_rows_convert_here(to, f->dtype, room, TIDE_F32, f->columns);
    }
}

/* The points of sixteen columns. place, point: the strides of weights and of points. In f64, because it is
 * rare and every board would suffer from an error here. */
TIDE_KERNEL(void, write_points,
            (float *restrict to, int64_t point, const float *restrict from, int64_t place,
             const float *restrict by),
            (to, point, from, place, by))
{
    enum { SIDE = TIDE_POINTS_SIDE, WINDOW_SIDE = TIDE_WINDOW_SIDE, STEP = TIDE_POINTS_STEP };
    double half[SIDE][WINDOW_SIDE][STEP];
    for (int i = 0; i < SIDE * WINDOW_SIDE; i++) {
        const double *down = tide_points_of_weight[i / WINDOW_SIDE];
        const float *column = from + i % WINDOW_SIDE * place;
        for (int j = 0; j < STEP; j++)
            half[i / WINDOW_SIDE][i % WINDOW_SIDE][j] =
                (down[0] * (double)column[j] + down[1] * (double)column[WINDOW_SIDE * place + j] +
                 down[2] * (double)column[2 * WINDOW_SIDE * place + j]) *
                (double)by[j];
    }
    for (int i = 0; i < TIDE_POINTS; i++, to += point) {
        const double *right = tide_points_of_weight[i % SIDE];
        const double(*row)[STEP] = half[i / SIDE];
        for (int j = 0; j < STEP; j++)
            to[j] = (float)(right[0] * row[0][j] + right[1] * row[1][j] + right[2] * row[2][j]);
    }
}

/* first, last: rows of one place of the weight. */
static void fold_points(void *context, int64_t first, int64_t last)
{
    enum { STEP = TIDE_POINTS_STEP };
    const struct folding *f = context;
    const float *weight = f->call->in[WEIGHT];
    const int64_t in = tide_tensor_rows(&f->call->graph->tensors[f->call->node->in[WEIGHT]]) / TIDE_WINDOW,
                  end = tide_panels(f->columns) * TIDE_PANEL;
    for (int64_t i = first; i < last; i++)
        for (int64_t j = 0; j < end; j += STEP) {
            float *to = (float *)f->call->out[FOLDED] + (j / TIDE_PANEL * TIDE_POINTS * in + i) * TIDE_PANEL +
                        j % TIDE_PANEL;
            if (j < f->columns)
                write_points(to, in * TIDE_PANEL, weight + i * f->columns + j, in * f->columns, f->by + j);
            for (int64_t point = 0; j >= f->columns && point < TIDE_POINTS; point++)
                memset(to + point * in * TIDE_PANEL, 0, STEP * sizeof *to);
        }
}

static void forward(const struct tide_call *call)
{
    const struct tide_tensor *weight = &call->graph->tensors[call->node->in[WEIGHT]];
    int64_t columns = tide_tensor_columns(weight);
    struct folding f = {call, columns, weight->dtype, call->scratch, (float *)call->scratch + columns};
    const float *scale = call->in[SCALE], *shift = call->in[SHIFT], *mean = call->in[MEAN],
                *variance = call->in[VARIANCE];
    for (int64_t j = 0; j < columns; j++) {
        f.by[j] = scale[j] / sqrtf(variance[j] + call->node->real);
        ((float *)call->out[BIAS])[j] = shift[j] - mean[j] * f.by[j];
    }
    if (call->node->numbers[BY_POINTS])
        tide_parallel(tide_tensor_rows(weight) / TIDE_WINDOW, 1 + 512 / columns, fold_points, &f);
    else
        tide_parallel(tide_tensor_rows(weight), 1 + 16384 / columns, fold_rows, &f);
}

static size_t scratch(const struct tide_need *n)
{
    const struct tide_tensor *weight = &n->graph->tensors[n->node->in[WEIGHT]];
    int64_t rows = 1 + (weight->dtype == TIDE_F32 ? 0 : tide_threads());
    return (size_t)(rows * tide_tensor_columns(weight)) * sizeof(float);
}

const struct tide_cpu_kernels tide_cpu_fold = {
    .scratch = scratch,
    .forward = forward,
};
