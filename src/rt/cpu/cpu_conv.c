/*
 * cpu_conv.c - convolutions on processors, as products of windows with the weight.
 *
 * The gradient of x is a convolution of y's gradient with the turned weight: places in reverse order, in and
 * out exchanged. The weight's gradient is windows^T times y's gradient. If there are no tiles for windows
 * (window_products.h), the windows of some rows at a time are gathered and multiplied like any matrix.
 */
#include "base/whole.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/window_products.h"
#include "rt/op_conv.h"

enum { CHUNK = 768 }; /* rows that are gathered at a time */

/* ---- the three products */

static struct tide_windows y_windows(const struct tide_conv *d)
{
    return (struct tide_windows){.board = d->board,
                                 .boards = d->rows / (d->board.columns * d->board.rows),
                                 .channels = d->in,
                                 .n = d->out,
                                 .relu = d->relu,
                                 .a_from = d->from,
                                 .b_from = d->stored,
                                 .to = d->to};
}

static struct tide_windows x_grad_windows(const struct tide_conv *d)
{
    struct tide_windows w = y_windows(d);
    w.channels = d->out;
    w.n = d->in;
    w.relu = false;
    w.a_from = d->to;
    w.b_from = TIDE_F32;
    w.to = d->from;
    return w;
}

static struct tide_windows weight_grad_windows(const struct tide_conv *d)
{
    struct tide_windows w = y_windows(d);
    w.transposed = true;
    w.relu = false;
    w.b_from = d->to;
    w.to = d->stored;
    return w;
}

/* The product of that many gathered rows. */
static struct tide_product product_of(const struct tide_windows *w, int64_t rows, enum tide_dtype from)
{
    int64_t k = TIDE_WINDOW * w->channels;
    struct tide_product p = w->transposed ? tide_product(k, w->n, rows, true, false, from, TIDE_F32)
                                          : tide_product(rows, w->n, k, false, false, from, w->to);
    tide_product_stored(&p, w->a_from, w->b_from);
    p.relu = w->relu;
    return p;
}

static bool are_in_place(const struct tide_windows *w, enum tide_dtype from)
{
    return tide_windows_fit(tide_tile_kind(from), w);
}

/* ---- gathered; scratch holds some windows, the sums of a weight's gradient, and the products' scratch */

static int64_t rows_of(const struct tide_windows *w)
{
    return w->boards * w->board.columns * w->board.rows;
}

static size_t row_bytes(const struct tide_windows *w)
{
    return (size_t)w->channels * tide_dtype_bytes(w->a_from);
}

static size_t gathered_bytes(const struct tide_windows *w)
{
    return tide_aligned((size_t)tide_smaller(CHUNK, rows_of(w)) * TIDE_WINDOW * row_bytes(w));
}

static int64_t sums_of(const struct tide_windows *w)
{
    return w->transposed && w->to != TIDE_F32 ? TIDE_WINDOW * w->channels * w->n : 0;
}

static size_t sum_bytes(const struct tide_windows *w)
{
    return tide_aligned((size_t)sums_of(w) * sizeof(float));
}

static size_t product_bytes(const struct tide_windows *w, int64_t rows, enum tide_dtype from)
{
    struct tide_product p = product_of(w, rows, from);
    return tide_matmul_scratch(&p);
}

static size_t windows_bytes(const struct tide_windows *w, enum tide_dtype from)
{
    if (are_in_place(w, from))
        return tide_windows_scratch(tide_tile_kind(from), w);
    int64_t rows = rows_of(w), last = rows % CHUNK ? rows % CHUNK : tide_smaller(CHUNK, rows);
    return gathered_bytes(w) + sum_bytes(w) +
           tide_larger_size(product_bytes(w, tide_smaller(CHUNK, rows), from), product_bytes(w, last, from));
}

struct gathering {
    const struct tide_windows *windows;
    const char *from;
    char *to;
    int64_t first;
};

static void gather_rows(void *context, int64_t first, int64_t last)
{
    const struct gathering *g = context;
    size_t bytes = row_bytes(g->windows);
    for (int64_t i = first; i < last; i++)
        for (int place = 0; place < TIDE_WINDOW; place++) {
            int64_t near = tide_board_neighbour(&g->windows->board, g->first + i, place);
            char *to = g->to + ((size_t)i * TIDE_WINDOW + (size_t)place) * bytes;
            if (near < 0)
                memset(to, 0, bytes);
            else
                memcpy(to, g->from + (size_t)near * bytes, bytes);
        }
}

/* Sums over all rows stay f32 until they are complete. */
static void multiply_gathered(const struct tide_windows *w, const struct tide_operands *o,
                              enum tide_dtype from, char *scratch)
{
    struct gathering g = {w, o->a, scratch, 0};
    char *sums = scratch + gathered_bytes(w), *rest = sums + sum_bytes(w), *c = sums_of(w) ? sums : o->c;
    const char *b = o->b, *added = o->added && sums_of(w) ? sums : o->added;
    if (o->added && sums_of(w))
        tide_rows_convert_here(sums, TIDE_F32, o->added, w->to, sums_of(w));
    for (int64_t rows; g.first < rows_of(w); g.first += rows) {
        rows = tide_smaller(CHUNK, rows_of(w) - g.first);
        struct tide_product p = product_of(w, rows, from);
        tide_parallel(rows, 64, gather_rows, &g);
        tide_matmul(&p, &(struct tide_operands){scratch, b, o->bias, c, added}, rest);
        size_t step = (size_t)(rows * w->n) * tide_dtype_bytes(w->transposed ? w->b_from : w->to);
        b += w->transposed ? step : 0;
        c += w->transposed ? 0 : step;
        added = w->transposed ? c : added ? added + step : NULL;
    }
    if (sums_of(w))
        tide_rows_convert_here(o->c, w->to, sums, TIDE_F32, sums_of(w));
}

static void multiply(const struct tide_windows *w, enum tide_dtype from, struct tide_operands operands,
                     void *scratch)
{
    if (are_in_place(w, from))
        tide_windows_multiply(tide_tile_kind(from), w, &operands, scratch);
    else
        multiply_gathered(w, &operands, from, scratch);
}

/* ---- the turned weight: (9 I, O) -> (9 O, I), places in reverse order */

static size_t turned_bytes(const struct tide_conv *d)
{
    return tide_aligned((size_t)(TIDE_WINDOW * d->in * d->out) * sizeof(float));
}

struct turning {
    const struct tide_conv *conv;
    const char *from;
    float *to;
};

enum { LINES = 16 }; /* turned at a time */

/* Lines are those of the result. */
static void turn_lines(void *context, int64_t first, int64_t last)
{
    const struct turning *t = context;
    const struct tide_conv *d = t->conv;
    const int64_t in = d->in, out = d->out, bytes = (int64_t)tide_row_bytes(d->stored, out);
    for (int64_t line = first, end; line < last; line = end) {
        int64_t place = line / out, j = line % out;
        const char *from = t->from + (TIDE_WINDOW - 1 - place) * in * bytes;
        end = tide_smaller(last, line + tide_smaller(LINES, out - j));
        for (int64_t k = 0; k < in; k++)
            for (int64_t i = 0; i < end - line; i++)
                t->to[(line + i) * in + k] = (float)tide_row_number(from + k * bytes, d->stored, out, j + i);
    }
}

/* ---- passes */

static size_t scratch(const struct tide_need *n)
{
    struct tide_conv d = tide_conv_of(n->graph, n->node);
    struct tide_windows y = y_windows(&d), x = x_grad_windows(&d), weight = weight_grad_windows(&d);
    return n->direction == TIDE_FORWARD ? windows_bytes(&y, d.from)
                                        : tide_larger_size(turned_bytes(&d) + windows_bytes(&x, d.from),
                                                           windows_bytes(&weight, d.from));
}

static void forward(const struct tide_call *call)
{
    struct tide_conv d = tide_conv_of(call->graph, call->node);
    struct tide_windows y = y_windows(&d);
    multiply(&y, d.from,
             (struct tide_operands){call->in[X], call->in[WEIGHT], d.has_bias ? call->in[BIAS] : NULL,
                                    call->out[0], tide_added(call)},
             call->scratch);
}

static void backward(const struct tide_call *call)
{
    struct tide_conv d = tide_conv_of(call->graph, call->node);
    const void *y_grad = call->out_grad[0];
    if (call->in_grad[BIAS])
        tide_rows_sum(call->in_grad[BIAS], call->adds >> BIAS & 1, y_grad, d.to, d.rows, d.out);
    if (call->in_grad[WEIGHT]) {
        struct tide_windows weight = weight_grad_windows(&d);
        multiply(&weight, d.from,
                 (struct tide_operands){call->in[X], y_grad, NULL, call->in_grad[WEIGHT],
                                        tide_grad_before(call, WEIGHT)},
                 call->scratch);
    }
    if (call->in_grad[X]) {
        struct tide_windows x = x_grad_windows(&d);
        struct turning t = {&d, call->in[WEIGHT], call->scratch};
        tide_parallel(TIDE_WINDOW * d.out, 4 * LINES, turn_lines, &t);
        multiply(
            &x, d.from,
            (struct tide_operands){y_grad, call->scratch, NULL, call->in_grad[X], tide_grad_before(call, X)},
            (char *)call->scratch + turned_bytes(&d));
    }
}

const struct tide_cpu_kernels tide_cpu_conv = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
