/*
 * cpu_conv.c - convolutions on processors, as matrix products: the windows of some cells at a time, gathered
 * into rows, times the weight.
 *
 * The gradient of x is a convolution of that of y, with the weight turned: places in the opposite order, in
 * and out exchanged.
 */
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_conv.h"

enum { CHUNK = 768 }; /* rows that are gathered at a time */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- windows as rows */

struct gathering {
    const struct tide_board *board;
    const char *from;
    char *to;
    int64_t first;
    size_t row_bytes; /* of one place */
};

static void gather_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct gathering *g = context;
    (void)thread;
    for (int64_t i = first; i < last; i++)
        for (int place = 0; place < TIDE_WINDOW; place++) {
            int64_t near = tide_board_neighbour(g->board, g->first + i, place);
            char *to = g->to + ((size_t)i * TIDE_WINDOW + (size_t)place) * g->row_bytes;
            if (near < 0)
                memset(to, 0, g->row_bytes);
            else
                memcpy(to, g->from + (size_t)near * g->row_bytes, g->row_bytes);
        }
}

static void gather(const struct tide_board *board, const void *from, size_t row_bytes, int64_t first,
                   int64_t rows, void *to)
{
    struct gathering g = {board, from, to, first, row_bytes};
    tide_parallel(rows, 64, gather_rows, &g);
}

/* ---- products of so many rows */

static struct tide_product y_product(const struct tide_conv *d, int64_t rows)
{
    struct tide_product p = tide_product(rows, d->out, TIDE_WINDOW * d->in, false, false, d->from, d->to);
    p.has_bias = d->has_bias;
    tide_product_stored(&p, d->from, d->stored);
    return p;
}

static struct tide_product x_grad_product(const struct tide_conv *d, int64_t rows, bool adds)
{
    struct tide_product p = tide_product(rows, d->in, TIDE_WINDOW * d->out, false, false, d->from, d->from);
    tide_product_stored(&p, d->to, TIDE_F32);
    p.adds = adds;
    return p;
}

static struct tide_product weight_grad_product(const struct tide_conv *d, int64_t rows, bool adds)
{
    struct tide_product p = tide_product(TIDE_WINDOW * d->in, d->out, rows, true, false, d->from, TIDE_F32);
    tide_product_stored(&p, d->from, d->to);
    p.adds = adds;
    return p;
}

/* ---- scratch: some windows; the weight, turned, or its gradient in f32; then of products */

struct room {
    void *windows;
    float *weight;
    void *rest;
};

static size_t window_bytes(const struct tide_conv *d)
{
    size_t columns =
        larger((size_t)d->in * tide_dtype_bytes(d->from), (size_t)d->out * tide_dtype_bytes(d->to));
    return tide_aligned((size_t)smaller(CHUNK, d->rows) * TIDE_WINDOW * columns);
}

static size_t weight_bytes(const struct tide_conv *d)
{
    return tide_aligned((size_t)(TIDE_WINDOW * d->in * d->out) * sizeof(float));
}

static struct room room_of(const struct tide_conv *d, void *scratch)
{
    char *weight = (char *)scratch + window_bytes(d);
    return (struct room){scratch, (float *)(void *)weight, weight + weight_bytes(d)};
}

static size_t product_bytes(const struct tide_matmuls *matmuls, const struct tide_conv *d, int64_t rows,
                            enum tide_direction direction)
{
    struct tide_product y = y_product(d, rows);
    size_t most = direction == TIDE_FORWARD ? tide_matmuls_scratch(matmuls, &y) : 0;
    for (int adds = 0; direction == TIDE_BACKWARD && adds < 2; adds++) {
        struct tide_product x = x_grad_product(d, rows, adds), weight = weight_grad_product(d, rows, adds);
        most = larger(most, tide_matmuls_scratch(matmuls, &x));
        most = larger(most, tide_matmuls_scratch(matmuls, &weight));
    }
    return most;
}

static size_t scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction)
{
    struct tide_conv d = tide_conv_of(graph, node);
    int64_t most = smaller(CHUNK, d.rows), last = d.rows % CHUNK ? d.rows % CHUNK : most;
    return window_bytes(&d) + weight_bytes(&d) +
           larger(product_bytes(matmuls, &d, most, direction), product_bytes(matmuls, &d, last, direction));
}

/* ---- passes */

static void *row_of(void *rows, enum tide_dtype dtype, int64_t columns, int64_t row)
{
    return (char *)rows + (size_t)(row * columns) * tide_dtype_bytes(dtype);
}

static void forward(const struct tide_call *call)
{
    struct tide_conv d = tide_conv_of(call->graph, call->node);
    struct room room = room_of(&d, call->scratch);
    for (int64_t first = 0, rows; first < d.rows; first += rows) {
        rows = smaller(CHUNK, d.rows - first);
        struct tide_product y = y_product(&d, rows);
        gather(&d.board, call->in[X], (size_t)d.in * tide_dtype_bytes(d.from), first, rows, room.windows);
        tide_matmul(call->matmuls, &y, room.windows, call->in[WEIGHT], call->in[BIAS],
                    row_of(call->out[0], d.to, d.out, first), room.rest);
    }
}

/* (9 I, O) -> (9 O, I), places in the opposite order. */
static void turn_weight(const struct tide_conv *d, const void *weight, float *to, float *row)
{
    for (int64_t k = 0; k < TIDE_WINDOW * d->in; k++) {
        float *place = to + (TIDE_WINDOW - 1 - k / d->in) * d->in * d->out + k % d->in;
        tide_rows_convert_here(row, TIDE_F32,
                               (const char *)weight + (size_t)k * tide_row_bytes(d->stored, d->out),
                               d->stored, d->out);
        for (int64_t j = 0; j < d->out; j++)
            place[j * d->in] = row[j];
    }
}

static void backward_x(const struct tide_call *call, const struct tide_conv *d, const struct room *room)
{
    turn_weight(d, call->in[WEIGHT], room->weight, room->windows);
    for (int64_t first = 0, rows; first < d->rows; first += rows) {
        rows = smaller(CHUNK, d->rows - first);
        struct tide_product x = x_grad_product(d, rows, call->adds >> X & 1);
        gather(&d->board, call->out_grad[0], (size_t)d->out * tide_dtype_bytes(d->to), first, rows,
               room->windows);
        tide_matmul(call->matmuls, &x, room->windows, room->weight, NULL,
                    row_of(call->in_grad[X], d->from, d->in, first), room->rest);
    }
}

/* In f32 until all rows are added. */
static void backward_weight(const struct tide_call *call, const struct tide_conv *d, const struct room *room)
{
    int64_t count = TIDE_WINDOW * d->in * d->out;
    bool adds = call->adds >> WEIGHT & 1;
    float *sums = d->stored == TIDE_F32 ? call->in_grad[WEIGHT] : room->weight;
    if (d->stored != TIDE_F32 && adds)
        tide_rows_convert(sums, TIDE_F32, call->in_grad[WEIGHT], d->stored, 1, count);
    for (int64_t first = 0, rows; first < d->rows; first += rows) {
        rows = smaller(CHUNK, d->rows - first);
        struct tide_product weight = weight_grad_product(d, rows, adds || first);
        gather(&d->board, call->in[X], (size_t)d->in * tide_dtype_bytes(d->from), first, rows, room->windows);
        tide_matmul(call->matmuls, &weight, room->windows,
                    row_of((void *)call->out_grad[0], d->to, d->out, first), NULL, sums, room->rest);
    }
    if (d->stored != TIDE_F32)
        tide_rows_convert(call->in_grad[WEIGHT], d->stored, sums, TIDE_F32, 1, count);
}

static void backward(const struct tide_call *call)
{
    struct tide_conv d = tide_conv_of(call->graph, call->node);
    struct room room = room_of(&d, call->scratch);
    if (call->in_grad[BIAS])
        tide_rows_sum(call->in_grad[BIAS], call->adds >> BIAS & 1, call->out_grad[0], d.to, d.rows, d.out);
    if (call->in_grad[WEIGHT])
        backward_weight(call, &d, &room);
    if (call->in_grad[X])
        backward_x(call, &d, &room);
}

const struct tide_cpu_kernels tide_cpu_conv = {
    .op = &tide_op_of_conv,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
