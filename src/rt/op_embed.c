/*
 * op_embed.c - tokens (N) of sequences of length T -> (N, C): table[token] + places[position].
 *
 * In the backward pass rows are added in their order, each thread at columns of its own, so that a token that
 * occurs twice gets the same bits whatever the number of threads.
 */
#include "rt/op.h"
#include "rt/reference.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"

#include <string.h>

enum { TOKENS, TABLE, PLACES, POSITIONS };

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *tokens = &graph->tensors[node->in[TOKENS]],
                             *table = &graph->tensors[node->in[TABLE]],
                             *places = &graph->tensors[node->in[PLACES]],
                             *positions =
                                 node->in_count > POSITIONS ? &graph->tensors[node->in[POSITIONS]] : tokens;
    int64_t dims[2] = {tide_tensor_count(tokens), tide_tensor_columns(table)};
    if (tokens->dtype != TIDE_I32 || tide_tensor_columns(places) != dims[1] ||
        places->dims[0] < node->numbers[0] || dims[0] % node->numbers[0] || positions->dtype != TIDE_I32 ||
        tide_tensor_count(positions) != dims[0])
        return tide_graph_fail(graph, "embed: sequences of %lld tokens do not fit '%s'",
                               (long long)node->numbers[0], places->name);
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "embedding", TIDE_ACTIVATION, TIDE_F32, 2, dims);
    return node->out[0] < 0 ? -1 : 0;
}

struct embedding {
    const struct tide_call *call;
    const int32_t *tokens, *positions; /* positions NULL: each sequence from 0 on */
    int64_t rows, columns, sequence;
};

static struct embedding embedding_of(const struct tide_call *call)
{
    const struct tide_tensor *y = &call->graph->tensors[call->node->out[0]];
    const int32_t *positions = call->node->in_count > POSITIONS ? call->in[POSITIONS] : NULL;
    return (struct embedding){call,       call->in[TOKENS], positions,
                              y->dims[0], y->dims[1],       call->node->numbers[0]};
}

static int64_t place_of(const struct embedding *e, int64_t row)
{
    return e->positions ? e->positions[row] : row % e->sequence;
}

static enum tide_dtype stored(const struct embedding *e, int operand)
{
    return e->call->graph->tensors[e->call->node->in[operand]].dtype;
}

static const char *row_of(const struct embedding *e, int operand, int64_t row)
{
    return (const char *)e->call->in[operand] + (size_t)row * tide_row_bytes(stored(e, operand), e->columns);
}

static void add_row(float *y, const char *row, enum tide_dtype dtype, int64_t columns)
{
    const float *wide = (const void *)row;
    for (int64_t j = 0; j < columns; j++)
        y[j] += dtype == TIDE_F32 ? wide[j] : (float)tide_row_number(row, dtype, columns, j);
}

static void forward_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct embedding *e = context;
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        float *y = (float *)e->call->out[0] + i * e->columns;
        tide_rows_convert_here(y, TIDE_F32, row_of(e, TABLE, e->tokens[i]), stored(e, TABLE), e->columns);
        add_row(y, row_of(e, PLACES, place_of(e, i)), stored(e, PLACES), e->columns);
    }
}

static void forward(const struct tide_call *call)
{
    struct embedding e = embedding_of(call);
    tide_parallel(e.rows, 64, forward_rows, &e);
}

static void backward_columns(void *context, int64_t first, int64_t last, int thread)
{
    const struct embedding *e = context;
    (void)thread;
    float *table = e->call->in_grad[TABLE], *places = e->call->in_grad[PLACES];
    for (int64_t i = 0; i < e->rows; i++) {
        const float *g = (const float *)e->call->out_grad[0] + i * e->columns;
        float *row = table ? table + e->tokens[i] * e->columns : NULL;
        float *place = places ? places + place_of(e, i) * e->columns : NULL;
        for (int64_t j = first; row && j < last; j++)
            row[j] += g[j];
        for (int64_t j = first; place && j < last; j++)
            place[j] += g[j];
    }
}

static void backward(const struct tide_call *call)
{
    struct embedding e = embedding_of(call);
    for (int i = TABLE; i <= PLACES; i++)
        if (call->in_grad[i] && !(call->adds >> i & 1))
            memset(call->in_grad[i], 0, tide_tensor_gradient_bytes(&call->graph->tensors[call->node->in[i]]));
    tide_parallel(e.columns, 64, backward_columns, &e);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return (double)tide_tensor_count(&graph->tensors[node->out[0]]);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    struct embedding e = embedding_of(call);
    for (int64_t i = 0; i < e.rows; i++)
        for (int64_t j = 0; j < e.columns; j++)
            tide_set_out(call, 0, i * e.columns + j,
                         tide_in_row(call, TABLE, e.tokens[i], j) +
                             tide_in_row(call, PLACES, place_of(&e, i), j));
}

static void reference_backward(const struct tide_call *call)
{
    struct embedding e = embedding_of(call);
    for (int operand = TABLE; operand <= PLACES; operand++)
        for (int64_t row = 0; row < tide_in_tensor(call, operand)->dims[0]; row++)
            for (int64_t j = 0; j < e.columns; j++) {
                double sum = 0;
                for (int64_t i = 0; i < e.rows; i++)
                    if ((operand == TABLE ? e.tokens[i] : place_of(&e, i)) == row)
                        sum += tide_out_grad(call, 0, i * e.columns + j);
                tide_give_grad(call, operand, row * e.columns + j, sum);
            }
}

const struct tide_op tide_op_of_embed = {
    .name = "embed",
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .work = work,
    .reads_in = {[TABLE] = 1U << TOKENS, [PLACES] = 1U << POSITIONS},
    .gathers = 1U << TABLE,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_embed(struct tide_graph *graph, int tokens, int table, int places, int positions,
                  int64_t sequence)
{
    struct tide_node node = {.op = &tide_op_of_embed,
                             .in = {tokens, table, places, positions},
                             .in_count = positions < 0 ? 3 : 4,
                             .numbers = {sequence}};
    return tide_graph_append(graph, &node);
}
