/*
 * op_recall.c - causal self-attention over a cache: qkv (N, 3C) of N rows from `position` on, keys (W, C) and
 * values (W, C) of the rows before them -> (N, C).
 *
 * The rows' own keys and values are put into the cache at their places, then each row attends to what the
 * cache has up to its own place. For decoding only: there is no way back. One thread takes one head, whose
 * keys and values lie as f32 in scratch; of a cache in bf16 this gives what op_attention gives, which rounds
 * them the same way.
 */
#include "base/check.h"
#include "rt/kernel.h"
#include "rt/op.h"
#include "rt/reference.h"
#include "rt/rows.h"
#include "rt/threads.h"

#include <math.h>

enum { QKV, KEYS, VALUES };

struct recall {
    const struct tide_call *call;
    enum tide_dtype dtype;
    int64_t rows, places, channels, heads, width, wide; /* wide: width, rounded up to 16 */
    float *scratch;
    int64_t thread_floats;
};

static struct recall recall_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *y = &graph->tensors[node->out[0]], *keys = &graph->tensors[node->in[KEYS]];
    struct recall r = {.dtype = y->dtype,
                       .rows = y->dims[0],
                       .places = keys->dims[0],
                       .channels = y->dims[1],
                       .heads = node->numbers[0]};
    r.width = r.channels / r.heads;
    r.wide = (r.width + 15) / 16 * 16;
    r.thread_floats = 2 * r.places * r.wide + (r.places + 15) / 16 * 16 + 2 * r.wide;
    return r;
}

static void *place(const struct recall *r, const void *start, int64_t row, int64_t columns, int64_t column)
{
    return (char *)start + (size_t)(row * columns + column) * tide_dtype_bytes(r->dtype);
}

/* `rows` rows of one head, `columns` apart, into (rows, wide) with zeros beyond the width. */
static void gather(const struct recall *r, const void *from, int64_t columns, int64_t rows, float *to)
{
    for (int64_t i = 0; i < rows; i++, to += r->wide) {
        tide_rows_convert_here(to, TIDE_F32, place(r, from, i, columns, 0), r->dtype, r->width);
        for (int64_t j = r->width; j < r->wide; j++)
            to[j] = 0;
    }
}

TIDE_KERNEL(void, score, (const float *q, const float *k, int64_t wide, int64_t count, float *s),
            (q, k, wide, count, s))
{
    for (int64_t i = 0; i < count; i++) {
        tide_16 sum = {0};
        for (int64_t j = 0; j < wide; j += 16)
            sum += *(const tide_16 *)(q + j) * *(const tide_16 *)(k + i * wide + j);
        float total = 0;
        for (int j = 0; j < 16; j++)
            total += sum[j];
        s[i] = total;
    }
}

/* Scores become what exponentials they are; returns one over their sum. */
TIDE_KERNEL(float, weigh, (float *s, int64_t count), (s, count))
{
    float most = s[0], sum = 0;
    for (int64_t i = 1; i < count; i++)
        most = s[i] > most ? s[i] : most;
    for (int64_t i = 0; i < count; i++)
        s[i] = tide_exp(s[i] - most);
    for (int64_t i = 0; i < count; i++)
        sum += s[i];
    return 1.0F / sum;
}

TIDE_KERNEL(void, mix, (const float *s, float scale, const float *v, int64_t wide, int64_t count, float *out),
            (s, scale, v, wide, count, out))
{
    for (int64_t j = 0; j < wide; j += 16) {
        tide_16 sum = {0};
        for (int64_t i = 0; i < count; i++)
            sum += s[i] * *(const tide_16 *)(v + i * wide + j);
        *(tide_16 *)(out + j) = sum * scale;
    }
}

static void one_head(const struct recall *r, int64_t head, float *room)
{
    const struct tide_call *call = r->call;
    int64_t end = call->position + r->rows, column = head * r->width;
    float *k = room, *v = k + r->places * r->wide, *s = v + r->places * r->wide,
          *q = s + (r->places + 15) / 16 * 16, *out = q + r->wide;
    float scale = 1.0F / sqrtf((float)r->width);
    gather(r, place(r, call->in[KEYS], 0, r->channels, column), r->channels, end, k);
    gather(r, place(r, call->in[VALUES], 0, r->channels, column), r->channels, end, v);
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t count = call->position + i + 1;
        gather(r, place(r, call->in[QKV], i, 3 * r->channels, column), 3 * r->channels, 1, q);
        for (int64_t j = 0; j < r->width; j++)
            q[j] *= scale;
        score(q, k, r->wide, count, s);
        mix(s, weigh(s, count), v, r->wide, count, out);
        tide_rows_convert_here(place(r, call->out[0], i, r->channels, column), r->dtype, out, TIDE_F32,
                               r->width);
    }
}

static void heads(void *context, int64_t first, int64_t last, int thread)
{
    const struct recall *r = context;
    for (int64_t i = first; i < last; i++)
        one_head(r, i, r->scratch + thread * r->thread_floats);
}

static void forward(const struct tide_call *call)
{
    struct recall r = recall_of(call->graph, call->node);
    r.call = call;
    r.scratch = call->scratch;
    TIDE_CHECK(call->position + r.rows, <=, r.places);
    for (int cache = KEYS; cache <= VALUES; cache++)
        for (int64_t i = 0; i < r.rows; i++)
            tide_rows_convert_here(place(&r, call->in[cache], call->position + i, r.channels, 0), r.dtype,
                                   place(&r, call->in[QKV], i, 3 * r.channels, cache * r.channels), r.dtype,
                                   r.channels);
    /* Heads of little work are not worth waking a thread for. */
    int64_t work = r.rows * (call->position + r.rows) * r.wide;
    tide_parallel(r.heads, 1 + 16384 / work, heads, &r);
}

static size_t scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction)
{
    (void)matmuls, (void)direction;
    return (size_t)tide_threads() * (size_t)recall_of(graph, node).thread_floats * sizeof(float);
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *qkv = &graph->tensors[node->in[QKV]], *keys = &graph->tensors[node->in[KEYS]],
                             *values = &graph->tensors[node->in[VALUES]];
    int64_t n = node->numbers[0], rows = tide_tensor_rows(qkv), columns = tide_tensor_columns(qkv);
    if (n <= 0 || columns % (3 * n) || keys->role != TIDE_STATE || values->role != TIDE_STATE ||
        keys->rank != 2 || values->rank != 2 || keys->dims[1] != columns / 3 || keys->dims[0] < rows ||
        values->dims[0] != keys->dims[0] || values->dims[1] != keys->dims[1] || keys->dtype != qkv->dtype ||
        values->dtype != qkv->dtype)
        return tide_graph_fail(graph, "recall: (%lld, %lld) does not fit %lld heads and its cache",
                               (long long)rows, (long long)columns, (long long)n);
    int64_t dims[2] = {rows, columns / 3};
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "recall", TIDE_ACTIVATION, qkv->dtype, 2, dims);
    return node->out[0] < 0 ? -1 : 0;
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    struct recall r = recall_of(graph, node);
    return 4.0 * (double)r.rows * (double)r.places * (double)r.channels;
}

/* ---- reference */

static double plain_score(const struct tide_call *call, int64_t head, int64_t i, int64_t j)
{
    struct recall r = recall_of(call->graph, call->node);
    double sum = 0;
    for (int64_t c = head * r.width; c < (head + 1) * r.width; c++)
        sum += tide_in(call, QKV, i * 3 * r.channels + c) * tide_in(call, KEYS, j * r.channels + c);
    return sum / sqrt((double)r.width);
}

static void reference_forward(const struct tide_call *call)
{
    struct recall r = recall_of(call->graph, call->node);
    for (int cache = KEYS; cache <= VALUES; cache++)
        for (int64_t i = 0; i < r.rows; i++)
            for (int64_t c = 0; c < r.channels; c++)
                tide_number_set((void *)call->in[cache], r.dtype, (call->position + i) * r.channels + c,
                                tide_in(call, QKV, (i * 3 + cache) * r.channels + c));
    for (int64_t i = 0; i < r.rows; i++)
        for (int64_t c = 0; c < r.channels; c++) {
            double sum = 0, y = 0;
            for (int64_t j = 0; j <= call->position + i; j++) {
                double e = exp(plain_score(call, c / r.width, i, j));
                sum += e;
                y += e * tide_in(call, VALUES, j * r.channels + c);
            }
            tide_set_out(call, 0, i * r.channels + c, y / sum);
        }
}

const struct tide_op tide_op_of_recall = {
    .name = "recall",
    .shape = shape,
    .scratch = scratch,
    .forward = forward,
    .work = work,
    .reference_forward = reference_forward,
};

int tide_op_recall(struct tide_graph *graph, int qkv, int keys, int values, int64_t heads_count)
{
    struct tide_node node = {
        .op = &tide_op_of_recall, .in = {qkv, keys, values}, .in_count = 3, .numbers = {heads_count}};
    return tide_graph_append(graph, &node);
}
