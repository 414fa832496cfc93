/*
 * cpu_depthwise.c - depthwise convolutions on processors.
 *
 * A line of a board is computed from the three lines around it, sixteen channels at a time, cell by cell: the
 * last three cells of each line stay in registers. A line beyond the edge is a line of zeros. The gradient of
 * x is the same convolution of y's gradient, with the places of the weight in reverse order.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_conv.h"

enum { SIDE = TIDE_WINDOW_SIDE, LANES = 16 };

/* The weight's gradient is summed in this many parts of the lines, whatever the number of threads. */
enum { PARTS = 32 };

struct depthwise {
    const struct tide_call *call;
    struct tide_conv d;
    int64_t lines; /* of all boards */
    size_t line_bytes;
    /* Scratch: the weight in f32, a line of zeros, and each part's sums of the weight's gradient. */
    float *weight;
    char *zeros;
    float *sums;
    /* What is convolved now: x to y, or their gradients. */
    const char *from;
    char *to;
    const float *bias;
    bool adds;
};

/* ---- sixteen channels, or what is left of them */

TIDE_INLINE tide_16 read_16(const void *from, enum tide_dtype dtype, int64_t width)
{
    tide_16 numbers = {0};
    if (dtype == TIDE_F32 && width == LANES)
        return *(const tide_16 *)from;
    for (int64_t k = 0; k < width; k++)
        numbers[k] =
            dtype == TIDE_F32 ? ((const float *)from)[k] : tide_from_bf16(((const tide_bf16 *)from)[k]);
    return numbers;
}

TIDE_INLINE void write_16(void *to, enum tide_dtype dtype, int64_t width, tide_16 numbers)
{
    if (dtype == TIDE_F32 && width == LANES)
        *(tide_16 *)to = numbers;
    for (int64_t k = 0; dtype == TIDE_F32 && width < LANES && k < width; k++)
        ((float *)to)[k] = numbers[k];
    for (int64_t k = 0; dtype == TIDE_BF16 && k < width; k++)
        ((tide_bf16 *)to)[k] = tide_to_bf16(numbers[k]);
}

/* Some channels of a line; the three lines from top to bottom, weight[place][channels]. */
struct strip {
    char *to;
    const char *lines[SIDE];
    const float *weight, *bias;
    bool adds;
    int64_t columns, channels, width;
};

TIDE_INLINE void convolve(const struct strip *s, enum tide_dtype dtype, int64_t width)
{
    const int64_t stride = s->channels * (int64_t)tide_dtype_bytes(dtype);
    const char *lines[SIDE] = {s->lines[0], s->lines[1], s->lines[2]};
    tide_16 weight[TIDE_WINDOW], before[SIDE] = {{0}, {0}, {0}}, here[SIDE], after[SIDE],
                                 first = s->bias ? read_16(s->bias, TIDE_F32, width) : (tide_16){0};
    char *to = s->to;
#pragma GCC unroll 9
    for (int place = 0; place < TIDE_WINDOW; place++)
        weight[place] = read_16(s->weight + place * s->channels, TIDE_F32, width);
#pragma GCC unroll 3
    for (int i = 0; i < SIDE; i++)
        here[i] = read_16(lines[i], dtype, width);
    for (int64_t x = 1; x <= s->columns; x++, to += stride) {
        tide_16 sum = first;
#pragma GCC unroll 3
        for (int i = 0; i < SIDE; i++) {
            after[i] = x < s->columns ? read_16(lines[i] + x * stride, dtype, width) : (tide_16){0};
            sum += before[i] * weight[i * SIDE];
            sum += here[i] * weight[i * SIDE + 1];
            sum += after[i] * weight[i * SIDE + 2];
            before[i] = here[i];
            here[i] = after[i];
        }
        if (s->adds)
            sum += read_16(to, dtype, width);
        write_16(to, dtype, width, sum);
    }
}

/* sums[place][channels]: x times the gradient of y, which is `to` here. */
TIDE_INLINE void sum_slopes(const struct strip *s, enum tide_dtype dtype, int64_t width, float *sums)
{
    const int64_t stride = s->channels * (int64_t)tide_dtype_bytes(dtype);
    const char *lines[SIDE] = {s->lines[0], s->lines[1], s->lines[2]}, *slopes = s->to;
    tide_16 total[TIDE_WINDOW], before[SIDE] = {{0}, {0}, {0}}, here[SIDE], after[SIDE];
#pragma GCC unroll 9
    for (int place = 0; place < TIDE_WINDOW; place++)
        total[place] = read_16(sums + place * s->channels, TIDE_F32, width);
#pragma GCC unroll 3
    for (int i = 0; i < SIDE; i++)
        here[i] = read_16(lines[i], dtype, width);
    for (int64_t x = 1; x <= s->columns; x++, slopes += stride) {
        tide_16 slope = read_16(slopes, dtype, width);
#pragma GCC unroll 3
        for (int i = 0; i < SIDE; i++) {
            after[i] = x < s->columns ? read_16(lines[i] + x * stride, dtype, width) : (tide_16){0};
            total[i * SIDE] += before[i] * slope;
            total[i * SIDE + 1] += here[i] * slope;
            total[i * SIDE + 2] += after[i] * slope;
            before[i] = here[i];
            here[i] = after[i];
        }
    }
#pragma GCC unroll 9
    for (int place = 0; place < TIDE_WINDOW; place++)
        write_16(sums + place * s->channels, TIDE_F32, width, total[place]);
}

TIDE_INLINE void do_strip_as(const struct strip *s, enum tide_dtype dtype, int64_t width, float *sums)
{
    if (sums)
        sum_slopes(s, dtype, width, sums);
    else
        convolve(s, dtype, width);
}

/* Convolves, or with sums adds up slopes. */
TIDE_KERNEL(void, do_strip, (const struct strip *s, enum tide_dtype dtype, float *sums), (s, dtype, sums))
{
    if (dtype == TIDE_F32 && s->width == LANES)
        do_strip_as(s, TIDE_F32, LANES, sums);
    else if (dtype == TIDE_F32)
        do_strip_as(s, TIDE_F32, s->width, sums);
    else if (s->width == LANES)
        do_strip_as(s, TIDE_BF16, LANES, sums);
    else
        do_strip_as(s, TIDE_BF16, s->width, sums);
}

/* ---- lines */

static struct strip strip_of(const struct depthwise *w, int64_t line, int64_t channel)
{
    int64_t y = line % w->d.board.rows, rest = w->d.in - channel;
    size_t at = (size_t)channel * tide_dtype_bytes(w->d.from);
    const char *here = w->from + (size_t)line * w->line_bytes;
    return (struct strip){.to = w->to + (size_t)line * w->line_bytes + at,
                          .lines = {(y > 0 ? here - w->line_bytes : w->zeros) + at, here + at,
                                    (y + 1 < w->d.board.rows ? here + w->line_bytes : w->zeros) + at},
                          .weight = w->weight + channel,
                          .bias = w->bias ? w->bias + channel : NULL,
                          .adds = w->adds,
                          .columns = w->d.board.columns,
                          .channels = w->d.in,
                          .width = rest < LANES ? rest : LANES};
}

static void convolve_lines(void *context, int64_t first, int64_t last)
{
    const struct depthwise *w = context;
    for (int64_t line = first; line < last; line++)
        for (int64_t channel = 0; channel < w->d.in; channel += LANES) {
            struct strip strip = strip_of(w, line, channel);
            do_strip(&strip, w->d.from, NULL);
        }
}

static void sum_parts(void *context, int64_t first, int64_t last)
{
    const struct depthwise *w = context;
    int64_t count = TIDE_WINDOW * w->d.in;
    for (int64_t part = first; part < last; part++) {
        float *sums = w->sums + part * count;
        memset(sums, 0, (size_t)count * sizeof *sums);
        for (int64_t channel = 0; channel < w->d.in; channel += LANES)
            for (int64_t line = w->lines * part / PARTS; line < w->lines * (part + 1) / PARTS; line++) {
                struct strip strip = strip_of(w, line, channel);
                do_strip(&strip, w->d.from, sums + channel);
            }
    }
}

static void convolve_all(struct depthwise *w, const void *from, void *to, const float *bias, bool adds)
{
    enum { WORTH = 8192 }; /* numbers */
    int64_t line = w->d.board.columns * w->d.in;
    w->from = from;
    w->to = to;
    w->bias = bias;
    w->adds = adds;
    tide_parallel(w->lines, (WORTH + line - 1) / line, convolve_lines, w);
}

/* ---- passes */

static size_t weight_bytes(const struct tide_conv *d)
{
    return tide_aligned((size_t)(TIDE_WINDOW * d->in) * sizeof(float));
}

static size_t line_bytes(const struct tide_conv *d)
{
    return (size_t)(d->board.columns * d->in) * tide_dtype_bytes(d->from);
}

static size_t scratch(const struct tide_need *n)
{
    struct tide_conv d = tide_conv_of(n->graph, n->node);
    return weight_bytes(&d) + tide_aligned(line_bytes(&d)) +
           (n->direction == TIDE_BACKWARD ? PARTS * weight_bytes(&d) : 0);
}

static struct depthwise depthwise_of(const struct tide_call *call)
{
    struct tide_conv d = tide_conv_of(call->graph, call->node);
    struct depthwise w = {.call = call,
                          .d = d,
                          .lines = d.rows / d.board.columns,
                          .line_bytes = line_bytes(&d),
                          .weight = call->scratch};
    w.zeros = (char *)call->scratch + weight_bytes(&d);
    w.sums = (float *)(void *)(w.zeros + tide_aligned(w.line_bytes));
    memset(w.zeros, 0, w.line_bytes);
    return w;
}

/* is_mirrored: places in reverse order. */
static void widen_weight(const struct depthwise *w, bool is_mirrored)
{
    int64_t channels = w->d.in;
    const char *from = w->call->in[WEIGHT];
    for (int64_t place = 0; place < TIDE_WINDOW; place++, from += tide_row_bytes(w->d.stored, channels))
        tide_rows_convert_here(w->weight + (is_mirrored ? TIDE_WINDOW - 1 - place : place) * channels,
                               TIDE_F32, from, w->d.stored, channels);
}

static void forward(const struct tide_call *call)
{
    struct depthwise w = depthwise_of(call);
    widen_weight(&w, false);
    convolve_all(&w, call->in[X], call->out[0], w.d.has_bias ? call->in[BIAS] : NULL, false);
}

static void backward_weight(struct depthwise *w)
{
    const struct tide_call *call = w->call;
    int64_t count = TIDE_WINDOW * w->d.in;
    w->from = call->in[X];
    w->to = (char *)call->out_grad[0];
    tide_parallel(PARTS, 1, sum_parts, w);
    for (int64_t part = 1; part < PARTS; part++)
        for (int64_t k = 0; k < count; k++)
            w->sums[k] += w->sums[part * count + k];
    for (int64_t k = 0; k < count; k++) {
        double had = call->adds >> WEIGHT & 1 ? tide_number(call->in_grad[WEIGHT], w->d.stored, k) : 0;
        tide_number_set(call->in_grad[WEIGHT], w->d.stored, k, had + (double)w->sums[k]);
    }
}

static void backward(const struct tide_call *call)
{
    struct depthwise w = depthwise_of(call);
    if (call->in_grad[BIAS])
        tide_rows_sum(call->in_grad[BIAS], call->adds >> BIAS & 1, call->out_grad[0], w.d.from, w.d.rows,
                      w.d.in);
    if (call->in_grad[WEIGHT])
        backward_weight(&w);
    if (call->in_grad[X]) {
        widen_weight(&w, true);
        convolve_all(&w, call->out_grad[0], call->in_grad[X], NULL, call->adds >> X & 1);
    }
}

const struct tide_cpu_kernels tide_cpu_depthwise = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
