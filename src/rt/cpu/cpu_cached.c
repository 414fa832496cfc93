/*
 * cpu_cached.c - causal self-attention over a KV cache, on processors.
 *
 * Consecutive rows of one slot are a run; one thread takes some heads of one run. A run of one row reads the
 * cache in place, all heads of a position together, because they are adjacent. Otherwise the keys and values
 * of a head are copied to scratch as f32, once for all its rows. With a cache in bf16 this gives the results
 * of cpu_attention, which rounds in the same way.
 */
#include "base/check.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_cached.h"

#include <math.h>

struct cached {
    const struct tide_call *call;
    const int32_t *slots, *positions;
    enum tide_dtype dtype;
    int64_t rows, places, channels, heads, width, wide; /* wide: width, rounded up to 16 */
    float *scratch;
    int64_t thread_floats;
};

static struct cached cached_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *y = &graph->tensors[node->out[0]], *keys = &graph->tensors[node->in[KEYS]];
    struct cached c = {.dtype = y->dtype,
                       .rows = y->dims[0],
                       .places = keys->dims[1],
                       .channels = y->dims[1],
                       .heads = node->numbers[0]};
    c.width = c.channels / c.heads;
    c.wide = (c.width + 15) / 16 * 16;
    int64_t places = (c.places + 15) / 16 * 16, one = 2 * c.places * c.wide + places + 2 * c.wide,
            row = c.heads * places + 2 * c.channels;
    c.thread_floats = one > row ? one : row;
    return c;
}

static void *number_at(const struct cached *c, const void *start, int64_t at)
{
    return (char *)start + (size_t)at * tide_dtype_bytes(c->dtype);
}

/* Returns the first number of a head's query, key or value in a row. */
static void *qkv_at(const struct cached *c, int64_t row, int which, int64_t head)
{
    return number_at(c, c->call->in[QKV], (3 * row + which) * c->channels + head * c->width);
}

/* The same in the cache of keys or values. */
static void *cache_at(const struct cached *c, int cache, int64_t slot, int64_t place, int64_t head)
{
    return number_at(c, c->call->in[cache], (slot * c->places + place) * c->channels + head * c->width);
}

/* Copies `rows` rows of one head, `columns` apart, to (rows, wide) with zeros after the width. */
static void gather(const struct cached *c, const void *from, int64_t columns, int64_t rows, float *to)
{
    for (int64_t i = 0; i < rows; i++, to += c->wide) {
        tide_rows_convert_here(to, TIDE_F32, number_at(c, from, i * columns), c->dtype, c->width);
        for (int64_t j = c->width; j < c->wide; j++)
            to[j] = 0;
    }
}

TIDE_INLINE tide_16 sixteen(const void *at, enum tide_dtype dtype)
{
    tide_16 wide = {0};
    if (dtype == TIDE_F32)
        return *(const tide_16 *)at;
    for (int j = 0; j < 16; j++)
        wide[j] = tide_from_bf16(((const tide_bf16 *)at)[j]);
    return wide;
}

TIDE_INLINE float total_of(tide_16 sum)
{
    float eight[8], four[4];
    for (int j = 0; j < 8; j++)
        eight[j] = sum[j] + sum[j + 8];
    for (int j = 0; j < 4; j++)
        four[j] = eight[j] + eight[j + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* For some adjacent heads, whose keys are `stride` numbers apart: scores are s[head * places + i]. */
TIDE_INLINE void score_heads_as(const float *q, const char *k, int64_t wide, int64_t heads, int64_t stride,
                                int64_t count, int64_t places, float *s, const enum tide_dtype dtype)
{
    const int64_t size = dtype == TIDE_F32 ? 4 : 2;
    for (int64_t i = 0; i < count; i++)
        for (int64_t h = 0; h < heads; h++) {
            tide_16 sum = {0};
            for (int64_t j = h * wide; j < (h + 1) * wide; j += 16)
                sum += *(const tide_16 *)(q + j) * sixteen(k + (i * stride + j) * size, dtype);
            s[h * places + i] = total_of(sum);
        }
}

TIDE_INLINE void mix_heads_as(const float *s, const char *v, int64_t wide, int64_t heads, int64_t stride,
                              int64_t count, int64_t places, float *out, const enum tide_dtype dtype)
{
    const int64_t size = dtype == TIDE_F32 ? 4 : 2;
    for (int64_t i = 0; i < count; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t j = h * wide; j < (h + 1) * wide; j += 16)
                *(tide_16 *)(out + j) += s[h * places + i] * sixteen(v + (i * stride + j) * size, dtype);
}

/* For one head in f32. */
TIDE_KERNEL(void, mix,
            (const float *s, float scale, const float *v, int64_t wide, int64_t stride, int64_t count,
             float *out),
            (s, scale, v, wide, stride, count, out))
{
    for (int64_t j = 0; j < wide; j += 16) {
        tide_16 sum = {0};
        for (int64_t i = 0; i < count; i++)
            sum += s[i] * *(const tide_16 *)(v + i * stride + j);
        *(tide_16 *)(out + j) = sum * scale;
    }
}

TIDE_KERNEL(void, score_heads,
            (const float *q, const char *k, int64_t wide, int64_t heads, int64_t stride, int64_t count,
             int64_t places, float *s, enum tide_dtype dtype),
            (q, k, wide, heads, stride, count, places, s, dtype))
{
    if (dtype == TIDE_F32)
        score_heads_as(q, k, wide, heads, stride, count, places, s, TIDE_F32);
    else
        score_heads_as(q, k, wide, heads, stride, count, places, s, TIDE_BF16);
}

TIDE_KERNEL(void, mix_heads,
            (const float *s, const char *v, int64_t wide, int64_t heads, int64_t stride, int64_t count,
             int64_t places, float *out, enum tide_dtype dtype),
            (s, v, wide, heads, stride, count, places, out, dtype))
{
    if (dtype == TIDE_F32)
        mix_heads_as(s, v, wide, heads, stride, count, places, out, TIDE_F32);
    else
        mix_heads_as(s, v, wide, heads, stride, count, places, out, TIDE_BF16);
}

/* Replaces the scores by exponentials and returns 1 / their sum. */
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

/* Rows [first, last) belong to one slot. */
static void one_head(const struct cached *c, int64_t first, int64_t last, int64_t head, float *room)
{
    int64_t slot = c->slots[first], end = c->positions[last - 1] + 1;
    float *k = room, *v = k + c->places * c->wide, *s = v + c->places * c->wide,
          *q = s + (c->places + 15) / 16 * 16, *out = q + c->wide;
    float scale = 1.0F / sqrtf((float)c->width);
    gather(c, cache_at(c, KEYS, slot, 0, head), c->channels, end, k);
    gather(c, cache_at(c, VALUES, slot, 0, head), c->channels, end, v);
    for (int64_t i = first; i < last; i++) {
        int64_t count = c->positions[i] + 1;
        gather(c, qkv_at(c, i, 0, head), 0, 1, q);
        for (int64_t j = 0; j < c->width; j++)
            q[j] *= scale;
        score_heads(q, (const char *)k, c->wide, 1, c->wide, count, c->places, s, TIDE_F32);
        mix(s, weigh(s, count), v, c->wide, c->wide, count, out);
        tide_rows_convert_here(number_at(c, c->call->out[0], i * c->channels + head * c->width), c->dtype,
                               out, TIDE_F32, c->width);
    }
}

/* Heads [first, last) of a row that is a run of its own. */
static void one_row(const struct cached *c, int64_t row, int64_t first, int64_t last, float *room)
{
    int64_t slot = c->slots[row], count = c->positions[row] + 1, heads = last - first,
            numbers = heads * c->width, places = (c->places + 15) / 16 * 16;
    float *s = room, *q = s + heads * places, *out = q + numbers;
    float scale = 1.0F / sqrtf((float)c->width);
    tide_rows_convert_here(q, TIDE_F32, qkv_at(c, row, 0, first), c->dtype, numbers);
    for (int64_t j = 0; j < numbers; j++) {
        q[j] *= scale;
        out[j] = 0;
    }
    score_heads(q, cache_at(c, KEYS, slot, 0, first), c->width, heads, c->channels, count, places, s,
                c->dtype);
    for (int64_t h = 0; h < heads; h++) {
        float inverse = weigh(s + h * places, count);
        for (int64_t i = 0; i < count; i++)
            s[h * places + i] *= inverse;
    }
    mix_heads(s, cache_at(c, VALUES, slot, 0, first), c->width, heads, c->channels, count, places, out,
              c->dtype);
    tide_rows_convert_here(number_at(c, c->call->out[0], row * c->channels + first * c->width), c->dtype, out,
                           TIDE_F32, numbers);
}

/* Returns the end of the run that begins at a row. */
static int64_t run_end(const struct cached *c, int64_t row)
{
    int64_t end = row + 1;
    while (end < c->rows && c->slots[end] == c->slots[row])
        end++;
    return end;
}

/* Heads are numbered row by row; a run is done with the heads of its first row. */
static void do_heads(void *context, int64_t first, int64_t last)
{
    const struct cached *c = context;
    float *room = c->scratch + tide_thread() * c->thread_floats;
    for (int64_t i = first, end; i < last; i = end) {
        int64_t row = i / c->heads, until = (row + 1) * c->heads;
        end = until < last ? until : last;
        if (c->slots[row] < 0 || (row > 0 && c->slots[row - 1] == c->slots[row]))
            continue;
        if (c->width == c->wide && run_end(c, row) == row + 1)
            one_row(c, row, i % c->heads, i % c->heads + end - i, room);
        else
            for (int64_t h = i; h < end; h++)
                one_head(c, row, run_end(c, row), h % c->heads, room);
    }
}

static void forward(const struct tide_call *call)
{
    struct cached c = cached_of(call->graph, call->node);
    c.call = call;
    c.slots = call->in[SLOTS];
    c.positions = call->in[POSITIONS];
    c.scratch = call->scratch;
    int64_t slots = call->graph->tensors[call->node->in[KEYS]].dims[0], work = 0;
    for (int64_t i = 0; i < c.rows; i++) {
        if (c.slots[i] < 0)
            continue;
        TIDE_CHECK(c.slots[i], <, slots);
        TIDE_CHECK(c.positions[i], <, c.places);
        work += c.positions[i] + 1;
        for (int cache = KEYS; cache <= VALUES; cache++)
            tide_rows_convert_here(cache_at(&c, cache, c.slots[i], c.positions[i], 0), c.dtype,
                                   qkv_at(&c, i, cache, 0), c.dtype, c.channels);
    }
    /* A few cheap heads are not worth waking a thread for. */
    tide_parallel(c.rows * c.heads, 1 + 16384 / (1 + work * c.wide / c.rows), do_heads, &c);
}

static size_t scratch(const struct tide_need *n)
{
    return (size_t)tide_threads() * (size_t)cached_of(n->graph, n->node).thread_floats * sizeof(float);
}

const struct tide_cpu_kernels tide_cpu_cached = {
    .scratch = scratch,
    .forward = forward,
};
