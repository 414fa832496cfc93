/*
 * op_embed.c - tokens (N) of sequences of length T -> (N, C): table[token] + places[position].
 */
#include "rt/op_embed.h"
#include "rt/reference.h"

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
    return tide_graph_output(graph, node, "embedding", TIDE_F32, 2, dims);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    return (double)tide_tensor_count(&graph->tensors[node->out[0]]);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    struct tide_embedding e = tide_embedding_of(call);
    for (int64_t i = 0; i < e.rows; i++)
        for (int64_t j = 0; j < e.columns; j++)
            tide_set_out(call, 0, i * e.columns + j,
                         tide_in_row(call, TABLE, e.tokens[i], j) +
                             tide_in_row(call, PLACES, tide_embedding_place(&e, i), j));
}

static void reference_backward(const struct tide_call *call)
{
    struct tide_embedding e = tide_embedding_of(call);
    for (int operand = TABLE; operand <= PLACES; operand++)
        for (int64_t row = 0; row < tide_in_tensor(call, operand)->dims[0]; row++)
            for (int64_t j = 0; j < e.columns; j++) {
                double sum = 0;
                for (int64_t i = 0; i < e.rows; i++)
                    if ((operand == TABLE ? e.tokens[i] : tide_embedding_place(&e, i)) == row)
                        sum += tide_out_grad(call, 0, i * e.columns + j);
                tide_give_grad(call, operand, row * e.columns + j, sum);
            }
}

const struct tide_op tide_op_of_embed = {
    .name = "embed",
    .shape = shape,
    .work = work,
    .reads_in = {[TABLE] = 1U << TOKENS, [PLACES] = 1U << POSITIONS},
    .streams = 1U << TABLE,
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
