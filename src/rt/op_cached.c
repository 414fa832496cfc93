/*
 * op_cached.c - causal self-attention over a KV cache: qkv (N, 3C), keys and values (S, W, C) of S slots,
 * slots (N), positions (N) -> (N, C).
 *
 * First stores each row's key and value in the cache at its position; then each row attends to its slot up to
 * that position. For decoding only: there is no backward pass.
 */
#include "rt/op_cached.h"
#include "rt/reference.h"

#include <math.h>

static bool fits(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *qkv = &graph->tensors[node->in[QKV]], *keys = &graph->tensors[node->in[KEYS]],
                             *values = &graph->tensors[node->in[VALUES]];
    int64_t n = node->numbers[0], columns = tide_tensor_columns(qkv);
    for (int i = SLOTS; i <= POSITIONS; i++)
        if (graph->tensors[node->in[i]].dtype != TIDE_I32 ||
            tide_tensor_count(&graph->tensors[node->in[i]]) != tide_tensor_rows(qkv))
            return false;
    return n > 0 && columns % (3 * n) == 0 && keys->role == TIDE_STATE && values->role == TIDE_STATE &&
           keys->rank == 3 && keys->dims[2] == columns / 3 && values->bytes == keys->bytes &&
           values->rank == 3 && values->dims[1] == keys->dims[1] && values->dims[2] == keys->dims[2] &&
           keys->dtype == qkv->dtype && values->dtype == qkv->dtype;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *qkv = &graph->tensors[node->in[QKV]];
    int64_t rows = tide_tensor_rows(qkv), columns = tide_tensor_columns(qkv);
    if (!fits(graph, node))
        return tide_graph_fail(graph, "cached: (%lld, %lld) does not fit %lld heads and the cache",
                               (long long)rows, (long long)columns, (long long)node->numbers[0]);
    int64_t dims[2] = {rows, columns / 3};
    return tide_graph_output(graph, node, "cached", qkv->dtype, 2, dims);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    double places = (double)graph->tensors[node->in[KEYS]].dims[1];
    return 4.0 * (double)tide_tensor_count(&graph->tensors[node->out[0]]) * places;
}

/* ---- reference */

struct plain {
    const struct tide_call *call;
    const int32_t *slots, *positions;
    int64_t rows, places, channels, width;
};

static double plain_score(const struct plain *c, int64_t head, int64_t i, int64_t place)
{
    double sum = 0;
    for (int64_t j = head * c->width; j < (head + 1) * c->width; j++)
        sum += tide_in(c->call, QKV, i * 3 * c->channels + j) *
               tide_in(c->call, KEYS, (c->slots[i] * c->places + place) * c->channels + j);
    return sum / sqrt((double)c->width);
}

static void plain_row(const struct plain *c, int64_t i)
{
    for (int64_t j = 0; j < c->channels; j++) {
        double sum = 0, y = 0;
        for (int64_t place = 0; place <= c->positions[i]; place++) {
            double e = exp(plain_score(c, j / c->width, i, place));
            sum += e;
            y += e * tide_in(c->call, VALUES, (c->slots[i] * c->places + place) * c->channels + j);
        }
        tide_set_out(c->call, 0, i * c->channels + j, y / sum);
    }
}

static void reference_forward(const struct tide_call *call)
{
    const struct tide_tensor *keys = tide_in_tensor(call, KEYS);
    struct plain c = {.call = call,
                      .slots = call->in[SLOTS],
                      .positions = call->in[POSITIONS],
                      .rows = tide_tensor_rows(tide_in_tensor(call, QKV)),
                      .places = keys->dims[1],
                      .channels = keys->dims[2],
                      .width = keys->dims[2] / call->node->numbers[0]};
    for (int cache = KEYS; cache <= VALUES; cache++)
        for (int64_t i = 0; i < c.rows; i++)
            for (int64_t j = 0; c.slots[i] >= 0 && j < c.channels; j++)
                tide_number_set((void *)call->in[cache], keys->dtype,
                                (c.slots[i] * c.places + c.positions[i]) * c.channels + j,
                                tide_in(call, QKV, (i * 3 + cache) * c.channels + j));
    for (int64_t i = 0; i < c.rows; i++)
        if (c.slots[i] >= 0)
            plain_row(&c, i);
}

const struct tide_op tide_op_of_cached = {
    .name = "cached",
    .shape = shape,
    .work = work,
    .reference_forward = reference_forward,
};

int tide_op_cached(struct tide_graph *graph, int qkv, int keys, int values, int slots, int positions,
                   int64_t heads_count)
{
    struct tide_node node = {.op = &tide_op_of_cached,
                             .in = {qkv, keys, values, slots, positions},
                             .in_count = 5,
                             .numbers = {heads_count}};
    return tide_graph_append(graph, &node);
}
