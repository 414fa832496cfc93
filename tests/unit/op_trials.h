/*
 * op_trials.h - graphs of one operator each, at odd shapes: what test_rt_ops.c tries.
 *
 * Each trial has the name of its operator, the function that makes the graph, and the numbers it is made
 * with. Inputs have gradients, but for those whose names begin with "of ", tokens and positions.
 */
#ifndef OP_TRIALS_H
#define OP_TRIALS_H

#include "rt/op.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>

enum { POSITION = 5, SPARED, NUMBERS };

static int64_t first_position; /* of the rows of each slot, in a trial of a cache */

static int input(struct tide_graph *graph, enum tide_dtype dtype, int64_t rows, int64_t columns)
{
    int64_t dims[2] = {rows, columns};
    return tide_graph_tensor(graph, "input", TIDE_INPUT, dtype, 2, dims);
}

static int token_input(struct tide_graph *graph, int64_t count)
{
    return tide_graph_tensor(graph, "tokens", TIDE_INPUT, TIDE_I32, 1, &count);
}

/* Of its own: parameters of one name are one. */
static int parameter(struct tide_graph *graph, int rank, const int64_t *dims)
{
    char name[16];
    snprintf(name, sizeof name, "parameter %d", graph->tensor_count);
    return tide_graph_parameter(graph, name, rank > 1, rank, dims);
}

static int matrix(struct tide_graph *graph, int64_t rows, int64_t columns)
{
    int64_t dims[2] = {rows, columns};
    return parameter(graph, 2, dims);
}

static int vector(struct tide_graph *graph, int64_t count)
{
    return parameter(graph, 1, &count);
}

static void make_embed(struct tide_graph *graph, const int64_t *n)
{
    int tokens = token_input(graph, n[0]), table = matrix(graph, n[2], n[3]);
    tide_op_embed(graph, tokens, table, matrix(graph, n[4], n[3]), -1, n[1]);
}

static void make_embed_at(struct tide_graph *graph, const int64_t *n)
{
    int tokens = token_input(graph, n[0]), table = matrix(graph, n[2], n[3]),
        places = matrix(graph, n[4], n[3]);
    tide_op_embed(graph, tokens, table, places, token_input(graph, n[0]), n[1]);
}

static void make_norm(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, TIDE_F32, n[0], n[1]), weight = vector(graph, n[1]);
    tide_op_norm(graph, x, weight, vector(graph, n[1]), 1e-5F);
}

static void make_linear(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0], n[1]), weight = matrix(graph, n[1], n[2]);
    tide_op_linear(graph, x, weight, vector(graph, n[2]), n[3]);
}

static void make_transposed(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0], n[1]), weight = matrix(graph, n[2], n[1]);
    tide_op_linear_transposed(graph, x, weight, n[4] ? vector(graph, n[2]) : -1, n[3]);
}

static void make_scale(struct tide_graph *graph, const int64_t *n)
{
    tide_op_scale(graph, input(graph, graph->compute, n[0], n[1]), 0.375F);
}

static void make_gelu(struct tide_graph *graph, const int64_t *n)
{
    tide_op_gelu(graph, input(graph, graph->compute, n[0], n[1]));
}

static void make_attention(struct tide_graph *graph, const int64_t *n)
{
    tide_op_attention(graph, input(graph, graph->compute, n[0] * n[1], 3 * n[2] * n[3]), -1, n[2], n[1]);
}

/* The rows after them are nobody's. */
static void make_attention_of_lengths(struct tide_graph *graph, const int64_t *n)
{
    int qkv = input(graph, graph->compute, n[0] * n[1], 3 * n[2] * n[3]);
    tide_op_attention(graph, qkv, tide_graph_tensor(graph, "lengths", TIDE_INPUT, TIDE_I32, 1, n), n[2],
                      n[1]);
}

static void make_add(struct tide_graph *graph, const int64_t *n)
{
    int a = input(graph, TIDE_F32, n[0], n[1]);
    tide_op_add(graph, a, input(graph, TIDE_F32, n[0], n[1]));
}

static void make_head(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0], n[1]), table = matrix(graph, n[2], n[1]);
    struct tide_head head = {.rows = n[3], .tokens = n[4], .loss = &tide_cross_entropy, .constants = -1};
    tide_op_head(graph, x, table, token_input(graph, n[0]), &head);
}

/* Of each row two numbers, and two of all: something that bends, and is not a mean. */
static float bent_loss(float log_probability, const float *inputs, const float *constants, float *ret_slope)
{
    float e = expf(0.1F * (log_probability + constants[1]));
    *ret_slope = inputs[0] * (0.1F * e + constants[0] * inputs[1]);
    return inputs[0] * (e + constants[0] * inputs[1] * log_probability);
}

static const struct tide_row_loss bent = {.inputs = 2, .loss = bent_loss};

static void make_policy(struct tide_graph *graph, const int64_t *n)
{
    int64_t two = 2;
    int x = input(graph, graph->compute, n[0], n[1]), table = matrix(graph, n[2], n[1]),
        targets = token_input(graph, n[0]);
    struct tide_head head = {.rows = n[3], .tokens = n[4], .loss = &bent, .temperature = 0.7F};
    for (int i = 0; i < bent.inputs; i++)
        head.inputs[i] = tide_graph_tensor(graph, "of rows", TIDE_INPUT, TIDE_F32, 1, n);
    head.constants = tide_graph_tensor(graph, "of all", TIDE_INPUT, TIDE_F32, 1, &two);
    tide_op_head(graph, x, table, targets, &head);
}

static void make_cached(struct tide_graph *graph, const int64_t *n)
{
    int64_t dims[3] = {n[4], n[1], n[2] * n[3]};
    int qkv = input(graph, graph->compute, n[0], 3 * n[2] * n[3]),
        keys = tide_graph_tensor(graph, "keys", TIDE_STATE, graph->compute, 3, dims),
        values = tide_graph_tensor(graph, "values", TIDE_STATE, graph->compute, 3, dims),
        slots = tide_graph_tensor(graph, "slots", TIDE_INPUT, TIDE_I32, 1, n),
        positions = tide_graph_tensor(graph, "positions", TIDE_INPUT, TIDE_I32, 1, n);
    first_position = n[POSITION];
    tide_op_cached(graph, qkv, keys, values, slots, positions, n[2]);
}

static void make_conv(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0] * n[1] * n[2], n[3]), weight = matrix(graph, 9 * n[3], n[4]);
    tide_op_conv(graph, x, weight, n[5] ? vector(graph, n[4]) : -1, n[1], n[2]);
}

static void make_depthwise(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0] * n[1] * n[2], n[3]), weight = matrix(graph, 9, n[3]);
    tide_op_depthwise(graph, x, weight, n[4] ? vector(graph, n[3]) : -1, n[1], n[2]);
}

/* Inputs whose names begin with `of` have no gradient; those of one number a row, or a column. */
static int given(struct tide_graph *graph, const char *name, int64_t rows, int64_t columns)
{
    int64_t dims[2] = {rows, columns};
    return rows ? tide_graph_tensor(graph, name, TIDE_INPUT, TIDE_F32, 2, dims)
                : tide_graph_tensor(graph, name, TIDE_INPUT, TIDE_F32, 1, dims + 1);
}

static void make_boards_linear(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0] * n[4], n[1]), weight = matrix(graph, n[1] * n[4], n[2]);
    tide_op_linear(graph, x, weight, vector(graph, n[2]), n[3]);
}

static void make_relu(struct tide_graph *graph, const int64_t *n)
{
    tide_op_relu(graph, input(graph, TIDE_F32, n[0], n[1]));
}

static void make_tanh(struct tide_graph *graph, const int64_t *n)
{
    tide_op_tanh(graph, input(graph, TIDE_F32, n[0], n[1]));
}

static void make_pool(struct tide_graph *graph, const int64_t *n)
{
    tide_op_pool(graph, input(graph, TIDE_F32, n[0] * n[1], n[2]), n[1]);
}

static void make_gate(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, TIDE_F32, n[0] * n[1], n[2]);
    tide_op_gate(graph, x, input(graph, TIDE_F32, n[0], n[2]));
}

static struct tide_batchnorm batchnorm(struct tide_graph *graph, int64_t columns)
{
    struct tide_batchnorm norm = {.weight = vector(graph, columns), .epsilon = 1e-5F};
    norm.bias = vector(graph, columns);
    norm.mean = given(graph, "of means", 0, columns);
    norm.variance = given(graph, "of variances", 0, columns);
    return norm;
}

static void make_batchnorm(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, TIDE_F32, n[0], n[1]);
    struct tide_batchnorm norm = batchnorm(graph, n[1]);
    tide_op_batchnorm(graph, x, &norm);
}

static void make_fold(struct tide_graph *graph, const int64_t *n)
{
    int weight = matrix(graph, n[0], n[1]);
    struct tide_batchnorm norm = batchnorm(graph, n[1]);
    tide_op_fold(graph, weight, &norm, false);
}

static void make_fold_points(struct tide_graph *graph, const int64_t *n)
{
    int64_t dims[2] = {9 * n[0], n[1]};
    int weight = tide_graph_tensor(graph, "weight", TIDE_INPUT, TIDE_F32, 2, dims);
    struct tide_batchnorm norm = batchnorm(graph, n[1]);
    tide_op_fold(graph, weight, &norm, true);
}

static void make_winograd(struct tide_graph *graph, const int64_t *n)
{
    int64_t rows = n[0] * n[1] * n[2], panels = (n[4] + 47) / 48;
    int x = input(graph, TIDE_F32, rows, n[3]), weight = input(graph, TIDE_F32, panels * 36 * n[3], 48),
        y = tide_op_winograd(graph, x, weight, vector(graph, n[4]), n[1], n[2]);
    if (n[5] >= 0)
        assert_int_equal(tide_op_relu_sum(graph, y, n[5] ? input(graph, TIDE_F32, rows, n[4]) : -1), y);
}

static void make_soft(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, TIDE_F32, n[0], n[1]);
    tide_op_soft(graph, x, given(graph, "of targets", n[0], n[1]), 0.75F);
}

static void make_squared(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, TIDE_F32, n[0], n[1]);
    tide_op_squared(graph, x, given(graph, "of targets", n[0], n[1]), 0.75F);
}

/* What a node does with its result at once where nothing trains: rows, columns, added. */
static void end(struct tide_graph *graph, int x, int64_t rows, int64_t columns, bool adds)
{
    enum tide_dtype dtype = graph->tensors[x].dtype;
    assert_int_equal(tide_op_relu_sum(graph, x, adds ? input(graph, dtype, rows, columns) : -1), x);
}

static void make_ended_conv(struct tide_graph *graph, const int64_t *n)
{
    int64_t rows = n[0] * n[1] * n[2];
    int x = input(graph, graph->compute, rows, n[3]), weight = matrix(graph, 9 * n[3], n[4]),
        y = tide_op_conv(graph, x, weight, vector(graph, n[4]), n[1], n[2]);
    end(graph, y, rows, n[4], n[5]);
}

static void make_ended_linear(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0], n[1]), weight = matrix(graph, n[1], n[2]);
    end(graph, tide_op_linear(graph, x, weight, vector(graph, n[2]), true), n[0], n[2], n[3]);
}

static void make_ended_gate(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, TIDE_F32, n[0] * n[1], n[2]);
    end(graph, tide_op_gate(graph, x, input(graph, TIDE_F32, n[0], n[2])), n[0] * n[1], n[2], n[3]);
}

/* Small ones, and ones that are shared out among threads and cross every border of blocks and vectors. */
static const struct trial {
    const char *op;
    void (*make)(struct tide_graph *graph, const int64_t *n);
    int64_t n[NUMBERS];
} trials[] = {
    {"embed", make_embed, {12, 6, 5, 7, 8}}, /* tokens, sequence, vocabulary, columns, positions */
    {"embed", make_embed, {140, 70, 5, 131, 71}},
    {"embed", make_embed_at, {12, 6, 5, 7, 8}},
    {"norm", make_norm, {5, 37}}, /* rows, columns */
    {"norm", make_norm, {50, 131}},
    {"norm", make_norm, {1, 3}},
    {"linear", make_linear, {7, 13, 19, false}}, /* rows, in, out, wide */
    {"linear", make_linear, {7, 13, 19, true}},
    {"linear", make_linear, {35, 70, 129, false}},
    {"linear", make_linear, {1, 1, 1, true}},
    {"linear", make_transposed, {7, 13, 19, false, true}}, /* likewise; with a bias */
    {"linear", make_transposed, {35, 70, 16, true, false}},
    {"linear", make_transposed, {1, 13, 83, true, false}}, /* logits */
    {"linear", make_transposed, {6, 33, 7, true, false}},
    {"linear", make_boards_linear, {3, 5, 19, true, 6}}, /* boards, in, out, wide; cells of a board */
    {"scale", make_scale, {3, 41}},                      /* rows, columns */
    {"gelu", make_gelu, {3, 41}},                        /* rows, columns */
    {"gelu", make_gelu, {3, 4099}},
    {"attention", make_attention, {2, 53, 2, 5}}, /* sequences, length, heads, width of a head */
    {"attention", make_attention, {1, 103, 3, 7}},
    {"attention", make_attention, {1, 17, 1, 85}},
    {"attention", make_attention, {3, 1, 1, 16}},
    {"attention", make_attention_of_lengths, {7, 53, 2, 5}}, /* of 0, 3, 1, 4, 2, 0, 3 rows, and the rest */
    {"attention", make_attention_of_lengths, {2, 3, 3, 17}},
    {"add", make_add, {5, 7}}, /* rows, columns */
    {"add", make_add, {5, 10007}},
    {"head",
     make_head,
     {9, 5, 83, 4, 100}}, /* rows, columns, vocabulary, rows and tokens of a tile; spared */
    {"head", make_head, {9, 5, 203, 4, 90}},
    {"head", make_head, {9, 5, 203, 4, 50, 0, 2}},
    {"head", make_head, {9, 5, 203, 4, 90, 0, 4}},
    {"head", make_head, {5, 9, 29, 5, 10}},
    {"head", make_head, {6, 3, 5, 1, 1}},
    {"head", make_policy, {9, 5, 83, 4, 30}},
    {"head", make_policy, {9, 5, 203, 3, 90, 0, 4}},
    {"cached", make_cached, {1, 9, 3, 5, 1, 6}}, /* rows, places, heads, width of a head, slots; position */
    {"cached", make_cached, {11, 70, 3, 33, 1, 59}},
    {"cached", make_cached, {7, 7, 1, 16, 1}},
    {"cached", make_cached, {8, 70, 3, 32, 8, 51}},
    {"cached", make_cached, {9, 24, 2, 16, 3, 20}},
    {"conv", make_conv, {2, 5, 4, 3, 7, true}}, /* boards, columns, rows, in, out; with a bias */
    {"conv", make_conv, {3, 6, 7, 16, 50, false}},
    {"conv", make_conv, {1, 1, 1, 5, 2, true}},
    {"conv", make_conv, {2, 1, 3, 8, 17, true}},
    {"conv", make_conv, {9, 10, 9, 2, 3, true}},
    {"conv", make_conv, {17, 3, 4, 18, 33, true}},
    {"conv", make_conv, {9, 4, 3, 10, 97, false}},
    {"conv", make_ended_conv, {9, 4, 3, 10, 57, true}}, /* likewise; with something added */
    {"conv", make_ended_conv, {2, 5, 4, 3, 24, false}},
    {"linear", make_ended_linear, {35, 70, 129, true}}, /* rows, in, out; with something added */
    {"linear", make_ended_linear, {7, 13, 48, false}},
    {"linear", make_ended_linear, {9, 400, 350, true}},
    {"gate", make_ended_gate, {3, 5, 19, true}}, /* boards, cells, columns; with something added */
    {"gate", make_ended_gate, {3, 5, 19, false}},
    {"depthwise", make_depthwise, {2, 5, 4, 19, true}}, /* boards, columns, rows, channels; with a bias */
    {"depthwise", make_depthwise, {3, 6, 7, 32, false}},
    {"depthwise", make_depthwise, {1, 1, 1, 3, true}},
    {"depthwise", make_depthwise, {40, 1, 2, 1, true}},
    {"relu", make_relu, {3, 41}}, /* rows, columns */
    {"relu", make_relu, {5, 10007}},
    {"tanh", make_tanh, {37, 1}},    /* rows, columns */
    {"pool", make_pool, {3, 6, 41}}, /* boards, cells, columns */
    {"pool", make_pool, {7, 49, 131}},
    {"gate", make_gate, {3, 6, 41}}, /* boards, cells, columns */
    {"gate", make_gate, {7, 49, 131}},
    {"batchnorm", make_batchnorm, {37, 5}}, /* rows, columns */
    {"batchnorm", make_batchnorm, {300, 131}},
    {"batchnorm", make_batchnorm, {3, 33}},
    {"fold", make_fold, {9, 37}}, /* rows, columns of a weight */
    {"fold", make_fold, {300, 131}},
    {"fold", make_fold_points, {5, 16}}, /* in, out of a convolution */
    {"fold", make_fold_points, {48, 112}},
    {"winograd", make_winograd, {2, 5, 4, 16, 32, -1}}, /* boards, columns, rows, in, out; 1: with */
    {"winograd", make_winograd, {3, 15, 9, 16, 48, 0}}, /* something added, 0: with ReLU alone */
    {"winograd", make_winograd, {1, 1, 1, 16, 16, 1}},
    {"winograd", make_winograd, {9, 3, 7, 32, 64, 1}},
    {"soft", make_soft, {7, 41}}, /* rows, columns */
    {"soft", make_soft, {1, 1}},
    {"squared", make_squared, {7, 1}}, /* rows, columns */
};

enum { TRIALS = sizeof trials / sizeof *trials };

#endif
