/*
 * cpu_attention.c - causal self-attention of all heads, on processors.
 *
 * One thread takes one head of one sequence at a time, with its queries, keys and values as f32 in scratch.
 * It goes over the queries in blocks of BLOCK rows: scores of a block against the keys before it, softmax,
 * product with the values. So BLOCK x T scores exist per thread, never T x T. The logarithm of each row's sum
 * of exponentials is kept; the backward pass recomputes the scores from it.
 */
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/tile.h"
#include "rt/op_attention.h"

#include <math.h>

enum { BLOCK = 48, WIDE = 4, TALL = 6 };

/* ---- products of small matrices in the cache */

TIDE_INLINE void tile(float *c, int64_t c_stride, const float *a, int64_t a_row, int64_t a_step,
                      const float *b, int64_t b_stride, int64_t k, int adds, const int rows, const int width)
{
    tide_16 sum[TALL][WIDE];
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < width; w++)
            sum[r][w] = adds ? *(const tide_16 *)(c + r * c_stride + 16 * w) : (tide_16){0};
    for (int64_t i = 0; i < k; i++) {
        tide_16 column[WIDE];
        for (int w = 0; w < width; w++)
            column[w] = *(const tide_16 *)(b + i * b_stride + 16 * w);
        for (int r = 0; r < rows; r++) {
            float x = a[r * a_row + i * a_step];
            for (int w = 0; w < width; w++)
                sum[r][w] += x * column[w];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < width; w++)
            *(tide_16 *)(c + r * c_stride + 16 * w) = sum[r][w];
}

/* c (m, n) (+)= a (m, k) b (k, n); n is a multiple of 16; the strides of a are arbitrary. */
TIDE_KERNEL(void, small_product,
            (float *c, int64_t c_stride, const float *a, int64_t a_row, int64_t a_step, const float *b,
             int64_t b_stride, int64_t m, int64_t n, int64_t k, int adds),
            (c, c_stride, a, a_row, a_step, b, b_stride, m, n, k, adds))
{
    int64_t j = 0;
    for (; j + 64 <= n; j += 64) {
        int64_t i = 0;
        for (; i + TALL <= m; i += TALL)
            tile(c + i * c_stride + j, c_stride, a + i * a_row, a_row, a_step, b + j, b_stride, k, adds, TALL,
                 WIDE);
        for (; i < m; i++)
            tile(c + i * c_stride + j, c_stride, a + i * a_row, a_row, a_step, b + j, b_stride, k, adds, 1,
                 WIDE);
    }
    for (; j < n; j += 16) {
        int64_t i = 0;
        for (; i + TALL <= m; i += TALL)
            tile(c + i * c_stride + j, c_stride, a + i * a_row, a_row, a_step, b + j, b_stride, k, adds, TALL,
                 1);
        for (; i < m; i++)
            tile(c + i * c_stride + j, c_stride, a + i * a_row, a_row, a_step, b + j, b_stride, k, adds, 1,
                 1);
    }
}

/* ---- one head of one sequence */

struct attention {
    const struct tide_call *call;
    enum tide_dtype dtype;
    int64_t heads, width, channels; /* width: of a head */
    int64_t row, sequence;          /* of one sequence: its first row and its number of rows */
    int64_t wide, padded;           /* width and sequence, rounded up to 16 */
    float *scratch;
    int64_t thread_floats;
    void (*do_head)(const struct attention *a, int64_t head, float *room);
};

static int64_t up16(int64_t n)
{
    return (n + 15) / 16 * 16;
}

static struct attention attention_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *y = &graph->tensors[node->out[Y]];
    struct attention a = {.dtype = y->dtype,
                          .heads = node->numbers[HEADS],
                          .sequence = node->numbers[SEQUENCE],
                          .channels = tide_tensor_columns(y)};
    a.width = a.channels / a.heads;
    a.wide = up16(a.width);
    a.padded = up16(a.sequence);
    return a;
}

/* Copies the rows of one head (T, width), `row_floats` apart, to (T, wide), times `scale`. */
static void gather(const struct attention *a, const void *from, int64_t row_floats, float scale, float *to)
{
    enum { AHEAD = 8 };
    int64_t stride = row_floats * (int64_t)tide_dtype_bytes(a->dtype);
    for (int64_t i = 0; i < a->sequence; i++) {
        float *row = to + i * a->wide;
        const char *at = (const char *)from + i * stride;
        /* Rows are too far apart for the hardware prefetcher. */
        tide_ask(at + AHEAD * stride, a->width * (int64_t)tide_dtype_bytes(a->dtype));
        tide_rows_convert_here(row, TIDE_F32, at, a->dtype, a->width);
        for (int64_t j = 0; scale != 1.0F && j < a->width; j++)
            row[j] *= scale;
        for (int64_t j = a->width; j < a->wide; j++)
            row[j] = 0;
    }
}

/* The reverse of gather; `had` has room for one row if the rows are added to. */
static void scatter(const struct attention *a, void *to, int64_t row_floats, float *from, int64_t rows,
                    float *had)
{
    for (int64_t i = 0; i < rows; i++) {
        char *at = (char *)to + (size_t)(i * row_floats) * tide_dtype_bytes(a->dtype);
        float *row = from + i * a->wide;
        if (had) {
            tide_rows_convert_here(had, TIDE_F32, at, a->dtype, a->width);
            for (int64_t j = 0; j < a->width; j++)
                row[j] += had[j];
        }
        tide_rows_convert_here(at, a->dtype, row, TIDE_F32, a->width);
    }
}

/* (T, wide) -> (wide, padded), with zeros beyond T */
static void transpose(const struct attention *a, const float *from, float *to)
{
    struct tide_operand rows = {.data = (const char *)from,
                                .stride = a->wide * (int64_t)sizeof *from,
                                .is_along = true,
                                .lines = a->sequence,
                                .numbers = a->wide};
    tide_tile_kind(TIDE_F32)->pack_b(&rows, (struct tide_strip){.lanes = a->padded, .last = a->wide},
                                     (uint32_t *)(void *)to);
}

static const void *part(const struct attention *a, const void *start, int64_t row, int64_t row_floats,
                        int64_t column)
{
    return (const char *)start + (size_t)(row * row_floats + column) * tide_dtype_bytes(a->dtype);
}

/* Turns a row of scores into probabilities of its first `count` keys, and zeros up to `end`. Returns the
 * logarithm of the sum of exponentials. */
TIDE_KERNEL(float, softmax_row, (float *s, int64_t count, int64_t end), (s, count, end))
{
    float most = s[0];
    for (int64_t j = 1; j < count; j++)
        most = s[j] > most ? s[j] : most;
    float sums[16] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + 16 <= count; j += 16)
        for (int k = 0; k < 16; k++) {
            s[j + k] = tide_exp(s[j + k] - most);
            sums[k] += s[j + k];
        }
    for (; j < count; j++) {
        s[j] = tide_exp(s[j] - most);
        sum += s[j];
    }
    for (int k = 0; k < 16; k++)
        sum += sums[k];
    float scale = 1.0F / sum;
    for (j = 0; j < count; j++)
        s[j] *= scale;
    for (; j < end; j++)
        s[j] = 0;
    return most + logf(sum);
}

static void head_forward(const struct attention *a, int64_t head, float *room)
{
    const struct tide_call *call = a->call;
    int64_t T = a->sequence, D = a->wide, row = a->row, stride = 3 * a->channels;
    float *q = room, *k = q + T * D, *v = k + T * D, *keys = v + T * D, *s = keys + D * a->padded,
          *o = s + BLOCK * a->padded;
    float *log_sum = (float *)call->out[LOG_SUM] + row * a->heads + head * T;
    gather(a, part(a, call->in[0], row, stride, head * a->width), stride, 1.0F / sqrtf((float)a->width), q);
    gather(a, part(a, call->in[0], row, stride, a->channels + head * a->width), stride, 1.0F, k);
    gather(a, part(a, call->in[0], row, stride, 2 * a->channels + head * a->width), stride, 1.0F, v);
    transpose(a, k, keys);
    for (int64_t first = 0; first < T; first += BLOCK) {
        int64_t rows = T - first < BLOCK ? T - first : BLOCK, end = up16(first + rows);
        small_product(s, a->padded, q + first * D, D, 1, keys, a->padded, rows, end, D, 0);
        for (int64_t i = 0; i < rows; i++)
            log_sum[first + i] = softmax_row(s + i * a->padded, first + i + 1, end);
        small_product(o, D, s, a->padded, 1, v, D, rows, D, first + rows, 0);
        scatter(a, (void *)part(a, call->out[Y], row + first, a->channels, head * a->width), a->channels, o,
                rows, NULL);
    }
}

/* Turns the scores p into probabilities, and their gradients g into gradients of the scores. */
TIDE_KERNEL(void, row_backward,
            (float *restrict p, float *restrict g, float log_sum, float inner, int64_t count, int64_t end),
            (p, g, log_sum, inner, count, end))
{
    for (int64_t j = 0; j < count; j++) {
        p[j] = tide_exp(p[j] - log_sum);
        g[j] = p[j] * (g[j] - inner);
    }
    for (int64_t j = count; j < end; j++)
        p[j] = g[j] = 0;
}

TIDE_KERNEL(float, inner_product, (const float *restrict x, const float *restrict y, int64_t count),
            (x, y, count))
{
    float sums[16] = {0}, sum = 0;
    for (int64_t j = 0; j < count; j += 16)
        for (int k = 0; k < 16; k++)
            sums[k] += x[j + k] * y[j + k];
    for (int k = 0; k < 16; k++)
        sum += sums[k];
    return sum;
}

static void head_backward(const struct attention *a, int64_t head, float *room)
{
    const struct tide_call *call = a->call;
    int64_t T = a->sequence, D = a->wide, P = a->padded, row = a->row, stride = 3 * a->channels;
    float *q = room, *k = q + T * D, *v = k + T * D, *o = v + T * D, *o_grad = o + T * D,
          *k_grad = o_grad + T * D, *v_grad = k_grad + T * D, *keys = v_grad + T * D, *values = keys + D * P,
          *p = values + D * P, *g = p + BLOCK * P, *q_grad = g + BLOCK * P,
          *had = call->adds & 1 ? q_grad + BLOCK * D : NULL;
    const float *log_sum = (const float *)call->out[LOG_SUM] + row * a->heads + head * T;
    float scale = 1.0F / sqrtf((float)a->width);
    gather(a, part(a, call->in[0], row, stride, head * a->width), stride, scale, q);
    gather(a, part(a, call->in[0], row, stride, a->channels + head * a->width), stride, 1.0F, k);
    gather(a, part(a, call->in[0], row, stride, 2 * a->channels + head * a->width), stride, 1.0F, v);
    gather(a, part(a, call->out[Y], row, a->channels, head * a->width), a->channels, 1.0F, o);
    gather(a, part(a, call->out_grad[Y], row, a->channels, head * a->width), a->channels, 1.0F, o_grad);
    transpose(a, k, keys);
    transpose(a, v, values);
    for (int64_t first = 0; first < T; first += BLOCK) {
        int64_t rows = T - first < BLOCK ? T - first : BLOCK, last = first + rows, end = up16(last);
        const float *block_grad = o_grad + first * D, *block_q = q + first * D;
        small_product(p, P, block_q, D, 1, keys, P, rows, end, D, 0);
        small_product(g, P, block_grad, D, 1, values, P, rows, end, D, 0);
        for (int64_t i = 0; i < rows; i++)
            row_backward(p + i * P, g + i * P, log_sum[first + i],
                         inner_product(block_grad + i * D, o + (first + i) * D, D), first + i + 1, end);
        small_product(q_grad, D, g, P, 1, k, D, rows, D, last, 0);
        for (int64_t i = 0; i < rows * D; i++)
            q_grad[i] *= scale;
        scatter(a, (void *)part(a, call->in_grad[0], row + first, stride, head * a->width), stride, q_grad,
                rows, had);
        /* Adds to the keys before this block; sets those of this block. */
        small_product(k_grad, D, g, 1, P, block_q, D, first, D, rows, 1);
        small_product(k_grad + first * D, D, g + first, 1, P, block_q, D, rows, D, rows, 0);
        small_product(v_grad, D, p, 1, P, block_grad, D, first, D, rows, 1);
        small_product(v_grad + first * D, D, p + first, 1, P, block_grad, D, rows, D, rows, 0);
    }
    scatter(a, (void *)part(a, call->in_grad[0], row, stride, a->channels + head * a->width), stride, k_grad,
            T, had);
    scatter(a, (void *)part(a, call->in_grad[0], row, stride, 2 * a->channels + head * a->width), stride,
            v_grad, T, had);
}

static int64_t floats_needed(const struct attention *a, enum tide_direction direction)
{
    int64_t rows = a->sequence * a->wide, columns = a->wide * a->padded, scores = BLOCK * a->padded,
            block = BLOCK * a->wide;
    return direction == TIDE_FORWARD ? 3 * rows + columns + scores + block
                                     : 7 * rows + 2 * columns + 2 * scores + block + a->wide;
}

/* The heads of all sequences, numbered consecutively. */
static void do_heads(void *context, int64_t first, int64_t last)
{
    struct attention a = *(const struct attention *)context;
    for (int64_t sequence = 0; sequence * a.heads < last; sequence++, a.row += a.sequence) {
        a.sequence = tide_attention_rows(a.call, sequence, a.row);
        a.padded = up16(a.sequence);
        for (int64_t i = 0; i < a.heads; i++)
            if (sequence * a.heads + i >= first && sequence * a.heads + i < last)
                a.do_head(&a, i, a.scratch + tide_thread() * a.thread_floats);
    }
}

static void run(const struct tide_call *call, enum tide_direction direction)
{
    struct attention a = attention_of(call->graph, call->node);
    a.call = call;
    a.scratch = call->scratch;
    a.thread_floats = floats_needed(&a, direction);
    a.do_head = direction == TIDE_FORWARD ? head_forward : head_backward;
    tide_parallel(tide_attention_sequences(call) * a.heads, 1, do_heads, &a);
}

static void forward(const struct tide_call *call)
{
    run(call, TIDE_FORWARD);
}

static void backward(const struct tide_call *call)
{
    if (call->in_grad[0])
        run(call, TIDE_BACKWARD);
}

static size_t scratch(const struct tide_need *n)
{
    struct attention a = attention_of(n->graph, n->node);
    return (size_t)tide_threads() * (size_t)floats_needed(&a, n->direction) * sizeof(float);
}

const struct tide_cpu_kernels tide_cpu_attention = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
