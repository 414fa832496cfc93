/*
 * op_attention.c - causal self-attention of all heads: qkv (N, 3C) of sequences of at most T rows -> (N, C).
 *
 * Keeps the logarithm of each row's sum of exponentials. The backward pass recomputes the scores from it, so
 * T x T scores are never stored.
 */
#include "rt/op_attention.h"
#include "rt/reference.h"

#include <math.h>

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *qkv = &graph->tensors[node->in[QKV]];
    int64_t heads = node->numbers[HEADS], sequence = node->numbers[SEQUENCE], rows = tide_tensor_rows(qkv),
            columns = tide_tensor_columns(qkv);
    if (node->in_count > LENGTHS && graph->tensors[node->in[LENGTHS]].dtype != TIDE_I32)
        return tide_graph_fail(graph, "attention: lengths are whole numbers");
    if (heads <= 0 || sequence <= 0 || columns % (3 * heads) || rows % sequence)
        return tide_graph_fail(graph, "attention: (%lld, %lld) does not fit %lld heads and sequences of %lld",
                               (long long)rows, (long long)columns, (long long)heads, (long long)sequence);
    int64_t dims[2] = {rows, columns / 3}, sums[2] = {rows / sequence * heads, sequence};
    tide_graph_output(graph, node, "attention", qkv->dtype, 2, dims);
    return tide_graph_output(graph, node, "attention log sum", TIDE_F32, 2, sums);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *y = &graph->tensors[node->out[Y]];
    return 2.0 * (double)tide_tensor_count(y) * (double)node->numbers[SEQUENCE];
}

/* ---- reference */

enum { QUERY, KEY, VALUE };

/* One head of one sequence. */
struct plain {
    const struct tide_call *call;
    int64_t T, width, channels, row, head;
};

static int64_t qkv_at(const struct plain *p, int which, int64_t i, int64_t c)
{
    return ((p->row + i) * 3 + which) * p->channels + p->head * p->width + c;
}

static int64_t y_at(const struct plain *p, int64_t i, int64_t c)
{
    return (p->row + i) * p->channels + p->head * p->width + c;
}

/* Index of row i's log-sum: (heads, T) for each sequence. */
static int64_t log_sum_at(const struct plain *p, int64_t i)
{
    return p->row * (p->channels / p->width) + p->head * p->T + i;
}

static double score(const struct plain *p, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t c = 0; c < p->width; c++)
        sum += tide_in(p->call, 0, qkv_at(p, QUERY, i, c)) * tide_in(p->call, 0, qkv_at(p, KEY, j, c));
    return sum / sqrt((double)p->width);
}

static void plain_forward(const struct plain *p)
{
    for (int64_t i = 0; i < p->T; i++) {
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j <= i; j++)
            most = fmax(most, score(p, i, j));
        for (int64_t j = 0; j <= i; j++)
            sum += exp(score(p, i, j) - most);
        /* cppcheck-suppress invalidFunctionArg ; a row sees at least itself */
        tide_set_out(p->call, LOG_SUM, log_sum_at(p, i), most + log(sum));
        for (int64_t c = 0; c < p->width; c++) {
            double y = 0;
            for (int64_t j = 0; j <= i; j++)
                y += exp(score(p, i, j) - most) / sum * tide_in(p->call, 0, qkv_at(p, VALUE, j, c));
            tide_set_out(p->call, Y, y_at(p, i, c), y);
        }
    }
}

static double probability(const struct plain *p, int64_t i, int64_t j)
{
    return exp(score(p, i, j) - tide_out(p->call, LOG_SUM, log_sum_at(p, i)));
}

static double score_grad(const struct plain *p, int64_t i, int64_t j)
{
    double slope = 0; /* d loss / d probability j, less its mean under all probabilities */
    for (int64_t c = 0; c < p->width; c++)
        slope += tide_out_grad(p->call, Y, y_at(p, i, c)) *
                 (tide_in(p->call, 0, qkv_at(p, VALUE, j, c)) - tide_out(p->call, Y, y_at(p, i, c)));
    return probability(p, i, j) * slope / sqrt((double)p->width);
}

static void plain_backward(const struct plain *p)
{
    const struct tide_call *call = p->call;
    for (int64_t at = 0; at < p->T; at++)
        for (int64_t c = 0; c < p->width; c++) {
            double query = 0, key = 0, value = 0;
            for (int64_t j = 0; j <= at; j++)
                query += score_grad(p, at, j) * tide_in(call, 0, qkv_at(p, KEY, j, c));
            for (int64_t i = at; i < p->T; i++) {
                key += score_grad(p, i, at) * tide_in(call, 0, qkv_at(p, QUERY, i, c));
                value += probability(p, i, at) * tide_out_grad(call, Y, y_at(p, i, c));
            }
            tide_give_grad(call, 0, qkv_at(p, QUERY, at, c), query);
            tide_give_grad(call, 0, qkv_at(p, KEY, at, c), key);
            tide_give_grad(call, 0, qkv_at(p, VALUE, at, c), value);
        }
}

static void each_head(const struct tide_call *call, void (*visit)(const struct plain *p))
{
    int64_t heads = call->node->numbers[HEADS], channels = tide_tensor_columns(tide_in_tensor(call, QKV)) / 3,
            sequences = tide_attention_sequences(call);
    struct plain p = {.call = call, .width = channels / heads, .channels = channels};
    for (int64_t i = 0; i < sequences; i++, p.row += p.T) {
        p.T = tide_attention_rows(call, i, p.row);
        for (p.head = 0; p.head < heads; p.head++)
            visit(&p);
    }
}

static void reference_forward(const struct tide_call *call)
{
    each_head(call, plain_forward);
}

static void reference_backward(const struct tide_call *call)
{
    each_head(call, plain_backward);
}

const struct tide_op tide_op_of_attention = {
    .name = "attention",
    .shape = shape,
    .work = work,
    .reads_in = {1U << QKV | 1U << LENGTHS},
    .reads_out = {1U << Y | 1U << LOG_SUM},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_attention(struct tide_graph *graph, int qkv, int lengths, int64_t heads, int64_t sequence)
{
    struct tide_node node = {.op = &tide_op_of_attention,
                             .in = {qkv, lengths},
                             .in_count = lengths < 0 ? 1 : 2,
                             .numbers = {[HEADS] = heads, [SEQUENCE] = sequence}};
    return tide_graph_append(graph, &node);
}
