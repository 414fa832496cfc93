/*
 * test_rt_ops.c - each operator alone, at odd shapes, in f32 and in bf16, with the matrix library and
 * without, with one thread and with three: its results against its plain reference, its gradients against
 * differences.
 *
 * How far two ways of computing a tensor may be apart is said as a part of the largest number in it:
 *
 * REFERENCE f32: 2^-24 is one rounding. Sums here have up to 140 terms, whose roundings add up like their
 * square root, to a dozen; a norm of three numbers, which subtracts what is nearly equal, has four times as
 * many left: 64, 3.8e-6. (Seen: 1.1e-6.) REFERENCE bf16: 2^-8 is one rounding. What is kept wider is rounded
 * once before a product, the result once after it, and what came from an earlier rounding (the output that
 * attention reads on its backward pass) once more: three, 1.2e-2. (Seen: 6.8e-3.) SLOPE f32: a central
 * difference over 2 x 0.01 is wrong by 1.7e-5 of the third derivative, which is large for the norm of a short
 * row, and by 2^-24 / 0.02 of the sum that is differentiated: 1e-3. (Seen: 3.9e-4.) SLOPE bf16: differences
 * are taken in f32 at inputs that bf16 can hold, so that only the gradient is coarse: the three roundings
 * from above.
 */
#include "sanitized.h"
#include "rt/cpu/kernel.h"
#include "rt/cpu/kernels.h"
#include "rt/op.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/update.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double reference_f32 = 64.0 / (1 << 24), reference_bf16 = 3.0 / (1 << 8);
static const double slope_f32 = 1e-3, slope_bf16 = 3.0 / (1 << 8);

/* ---- what is tried */

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

static const struct tide_row_loss bent = {.name = "bent", .inputs = 2, .loss = bent_loss};

static void make_policy(struct tide_graph *graph, const int64_t *n)
{
    int64_t two = 2;
    int x = input(graph, graph->compute, n[0], n[1]), table = matrix(graph, n[2], n[1]),
        targets = token_input(graph, n[0]);
    struct tide_head head = {
        .rows = n[3], .tokens = n[4], .loss = &bent, .temperature = 0.7F, .sparse = n[POSITION]};
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

static void make_logits(struct tide_graph *graph, const int64_t *n)
{
    int x = input(graph, graph->compute, n[0], n[1]);
    tide_op_logits(graph, x, matrix(graph, n[2], n[1]));
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
    tide_op_fold(graph, weight, &norm);
}

static void make_fold_points(struct tide_graph *graph, const int64_t *n)
{
    int64_t dims[2] = {9 * n[0], n[1]};
    int weight = tide_graph_tensor(graph, "weight", TIDE_INPUT, TIDE_F32, 2, dims);
    struct tide_batchnorm norm = batchnorm(graph, n[1]);
    tide_op_fold_points(graph, weight, &norm);
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
    {"head", make_policy, {9, 5, 83, 4, 30, 0}}, /* likewise; whether rows without a target are left out */
    {"head", make_policy, {9, 5, 83, 4, 30, 1}},
    {"head", make_policy, {9, 5, 203, 3, 90, 1, 4}},
    {"cached", make_cached, {1, 9, 3, 5, 1, 6}}, /* rows, places, heads, width of a head, slots; position */
    {"cached", make_cached, {11, 70, 3, 33, 1, 59}},
    {"cached", make_cached, {7, 7, 1, 16, 1}},
    {"cached", make_cached, {8, 70, 3, 32, 8, 51}},
    {"cached", make_cached, {9, 24, 2, 16, 3, 20}},
    {"logits", make_logits, {1, 13, 83}}, /* rows, columns, vocabulary */
    {"logits", make_logits, {6, 33, 7}},
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

/* Of what is computed, and of parameters (and their gradients) that are matrices. */
struct types {
    enum tide_dtype compute, stored;
};

static const struct types ways[] = {
    {TIDE_F32, TIDE_F32}, {TIDE_BF16, TIDE_F32}, {TIDE_F32, TIDE_BF16}, {TIDE_BF16, TIDE_BF16}};
enum { WAYS = sizeof ways / sizeof *ways };

static bool is_narrow(struct types types)
{
    return types.compute == TIDE_BF16 || types.stored == TIDE_BF16;
}

static void every_operator_is_tried_and_has_a_reference(void **state)
{
    (void)state;
    for (int i = 0; tide_ops[i]; i++) {
        const struct tide_op *op = tide_ops[i];
        int found = 0;
        for (int t = 0; t < TRIALS; t++)
            found += !strcmp(trials[t].op, op->name);
        if (!found)
            fail_msg("'%s' is tried at no shape: give it a row in the table above", op->name);
        if (!op->reference_forward ||
            (op->reference_backward != NULL) != (op->passes || tide_cpu_kernels(op)->backward))
            fail_msg("'%s' has no reference", op->name);
    }
}

/* ---- one node with memory for everything it touches */

struct bench {
    struct tide_graph *graph;
    struct tide_matmuls *matmuls;
    struct tide_call forward, backward;
    void *data[16], *gradients[16];
};

static uint64_t seed;

static float uniform(void)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (float)(seed >> 40) / 8388608.0F - 1.0F;
}

static enum tide_dtype dtype_of(const struct bench *b, int tensor)
{
    return b->graph->tensors[tensor].dtype;
}

static int64_t count_of(const struct bench *b, int tensor)
{
    return tide_tensor_count(&b->graph->tensors[tensor]);
}

/* Not a byte more than asked for, so that the sanitizer sees one that is touched. */
static void *memory(size_t bytes)
{
    void *got = NULL;
    assert_int_equal(posix_memalign(&got, TIDE_ALIGN, bytes ? bytes : 1), 0);
    memset(got, 0xff, bytes); /* NaNs in either type: what is used before it is written shows */
    return got;
}

/* As many rows of each slot, one after another. */
static void fill_slots(struct bench *b, int tensor)
{
    int64_t rows = count_of(b, tensor), slots = b->graph->tensors[b->forward.node->in[1]].dims[0];
    for (int64_t i = 0; i < rows; i++) {
        int64_t slot = i * slots / rows;
        ((int32_t *)b->data[tensor])[i] =
            (int32_t)(!strcmp(b->graph->tensors[tensor].name, "slots")
                          ? slot
                          : first_position + i - (slot * rows + slots - 1) / slots);
    }
}

/* Variances are positive; what has a corner is tried beside it, where differences can tell. */
static double number_for(const struct bench *b, int tensor)
{
    double x = uniform();
    if (!strcmp(b->graph->tensors[tensor].name, "of variances"))
        return fabs(x) + 0.25;
    return strcmp(b->forward.node->op->name, "relu") != 0 ? x : x < 0 ? x - 0.02 : x + 0.02;
}

static void fill(struct bench *b, int tensor)
{
    bool are_targets = b->forward.node->op->is_loss;
    if (dtype_of(b, tensor) == TIDE_I32 && !strcmp(b->forward.node->op->name, "cached")) {
        fill_slots(b, tensor);
        return;
    }
    for (int64_t k = 0; k < count_of(b, tensor); k++)
        if (dtype_of(b, tensor) == TIDE_I32) /* tokens that come again; rows that do not count */
            ((int32_t *)b->data[tensor])[k] = are_targets && k % 4 == 3 ? -1 : (int32_t)(k * 3 % 5);
        else if (b->graph->tensors[tensor].producer < 0)
            tide_number_set(b->data[tensor], dtype_of(b, tensor), k, number_for(b, tensor));
}

static void give_scratch(const struct bench *b, enum tide_direction direction, int64_t spared,
                         struct tide_call *call)
{
    size_t bytes = tide_cpu_scratch(b->matmuls, b->graph, call->node, direction, (int)spared);
    call->scratch = memory(bytes);
    call->scratch_bytes = bytes;
}

/* Gradients hold numbers: those of outputs are what comes in, those of inputs what was there before. */
static struct bench set_up(const struct trial *trial, struct types types, bool plain)
{
    struct tide_err err = {0};
    struct bench b = {.graph = tide_graph_new(types.compute)};
    assert_non_null(b.graph);
    b.graph->stored = types.stored;
    tide_graph_program(b.graph, "trial", false);
    trial->make(b.graph, trial->n);
    assert_int_equal(tide_matmuls_new(plain, &b.matmuls, &err), 0);
    if (tide_graph_failed(b.graph, &err))
        fail_msg("%s: %s", trial->op, err.text);
    const struct tide_node *node = &b.graph->nodes[0];
    assert_string_equal(node->op->name, trial->op);
    b.forward = (struct tide_call){.graph = b.graph, .node = node, .matmuls = b.matmuls, .loss_scale = 0.5F};
    seed = 42;
    for (int i = 0; i < b.graph->tensor_count; i++) {
        b.data[i] = memory(b.graph->tensors[i].bytes);
        b.gradients[i] = memory(b.graph->tensors[i].bytes);
        fill(&b, i);
        for (int64_t k = 0; dtype_of(&b, i) != TIDE_I32 && k < count_of(&b, i); k++)
            tide_number_set(b.gradients[i], dtype_of(&b, i), k, node->op->is_loss ? 0.5 : uniform());
    }
    for (int i = 0; i < node->in_count; i++)
        b.forward.in[i] = b.data[node->in[i]];
    for (int i = 0; i < node->out_count; i++)
        b.forward.out[i] = b.data[node->out[i]];
    b.backward = b.forward;
    b.backward.out_grad[0] = b.gradients[node->out[0]];
    for (int i = 0; i < node->in_count; i++)
        if (dtype_of(&b, node->in[i]) != TIDE_I32 &&
            strncmp(b.graph->tensors[node->in[i]].name, "of ", 3) != 0)
            b.backward.in_grad[i] = b.gradients[node->in[i]];
    give_scratch(&b, TIDE_FORWARD, 0, &b.forward);
    give_scratch(&b, TIDE_BACKWARD, trial->n[SPARED], &b.backward);
    return b;
}

static void tear_down(struct bench *b)
{
    for (int i = 0; i < b->graph->tensor_count; i++) {
        free(b->data[i]);
        free(b->gradients[i]);
    }
    free(b->forward.scratch);
    free(b->backward.scratch);
    tide_matmuls_free(b->matmuls);
    tide_graph_free(b->graph);
}

/* What a schedule does where an operator says that gradients pass unchanged. */
static void pass_through(const struct tide_call *call)
{
    const float *from = call->out_grad[0];
    for (int i = 0; i < 2; i++) {
        float *to = call->in_grad[i];
        for (int64_t k = 0; k < tide_tensor_count(&call->graph->tensors[call->node->out[0]]); k++)
            to[k] = call->adds >> i & 1 ? to[k] + from[k] : from[k];
    }
}

static bool has_backward(const struct bench *b)
{
    return b->forward.node->op->reference_backward && !b->forward.node->relu;
}

static void run(struct bench *b, unsigned adds)
{
    const struct tide_op *op = b->forward.node->op;
    const struct tide_cpu_kernels *kernels = tide_cpu_kernels(op);
    b->backward.adds = adds;
    kernels->forward(&b->forward);
    if (has_backward(b))
        (op->passes ? pass_through : kernels->backward)(&b->backward);
}

/* ---- against the reference */

static void agree(const struct bench *a, void *const *of_a, const struct bench *b, void *const *of_b,
                  int tensor, const char *what)
{
    bool narrow = is_narrow((struct types){a->graph->compute, a->graph->stored});
    double worst = 0, largest = 0;
    for (int64_t k = 0; k < count_of(a, tensor); k++) {
        double x = tide_number(of_a[tensor], dtype_of(a, tensor), k),
               y = tide_number(of_b[tensor], dtype_of(b, tensor), k);
        worst = isfinite(x) && isfinite(y) ? fmax(worst, fabs(x - y)) : INFINITY;
        largest = fmax(largest, fabs(y));
    }
    if (!(worst <= largest * (narrow ? reference_bf16 : reference_f32)))
        fail_msg("%s, %s, %s products, %d threads, (%lld, %lld): %s of tensor %d is off by %g of %g",
                 a->forward.node->op->name, narrow ? "bf16" : "f32",
                 tide_matmuls_name(a->matmuls, a->graph->compute), tide_threads(),
                 (long long)a->graph->tensors[tensor].dims[0], (long long)a->graph->tensors[tensor].dims[1],
                 what, tensor, worst, largest);
}

/* What the reference makes of it, gradients written (adds[0]) and added to (adds[1]). */
static struct bench reference_of(const struct trial *trial, struct types types, unsigned adds)
{
    struct bench b = set_up(trial, types, true);
    const struct tide_op *op = b.forward.node->op;
    b.backward.adds = adds;
    b.forward.matmuls = b.backward.matmuls = NULL;
    b.forward.scratch = b.backward.scratch = (free(b.forward.scratch), free(b.backward.scratch), NULL);
    op->reference_forward(&b.forward);
    if (has_backward(&b))
        op->reference_backward(&b.backward);
    return b;
}

static void compare(const struct trial *trial, struct types types, bool plain, const struct bench *written,
                    const struct bench *added)
{
    static const unsigned masks[] = {0, 7, 2, 5};
    int operands = written->forward.node->in_count;
    for (int m = is_slow() && operands > 1 ? 2 : 0; m < (operands == 1 ? 2 : 4); m++) {
        struct bench b = set_up(trial, types, plain);
        const struct tide_node *node = b.forward.node;
        unsigned adds = masks[m] & ~(node->op->is_loss ? 1U : 0); /* that of a loss is always the first */
        run(&b, adds);
        for (int i = 0; i < node->out_count; i++)
            agree(&b, b.data, written, written->data, node->out[i], "output");
        for (int i = 0; i < operands; i++) {
            const struct bench *expected = adds >> i & 1 ? added : written;
            if (!b.backward.in_grad[i])
                continue;
            agree(&b, b.gradients, expected, expected->gradients, node->in[i], "gradient");
            agree(&b, b.data, expected, expected->data, node->in[i],
                  "input"); /* changed only if it is a state */
        }
        tear_down(&b);
    }
}

/* Of what is slow, one shape of an operator is tried in every type, and every shape in one. */
static bool is_tried(int t, int way)
{
    bool is_first = t == 0 || strcmp(trials[t].op, trials[t - 1].op) != 0;
    return !is_slow() || is_first || way == t % WAYS;
}

static void every_operator_agrees_with_its_reference(void **state)
{
    (void)state;
    for (int t = 0; t < TRIALS; t++)
        for (int way = 0; way < WAYS; way++) {
            if (!is_tried(t, way))
                continue;
            struct bench written = reference_of(&trials[t], ways[way], 0),
                         added = reference_of(&trials[t], ways[way], ~0U);
            for (int threads = 1; threads <= 3; threads += 2)
                for (int plain = 0; plain < 2; plain++) {
                    if (!is_long() && plain == (threads > 1)) /* each way once */
                        continue;
                    tide_threads_set(threads);
                    compare(&trials[t], ways[way], plain, &written, &added);
                }
            tear_down(&written);
            tear_down(&added);
        }
}

/* One by one, in bf16, more than 256 of them would add nothing. */
static void rows_of_a_token_are_summed_before_they_are_rounded(void **state)
{
    (void)state;
    static const struct trial trial = {"embed", make_embed, {1000, 100, 3, 5, 100}};
    struct bench b = set_up(&trial, (struct types){TIDE_F32, TIDE_BF16}, true);
    const struct tide_node *node = b.forward.node;
    for (int64_t i = 0; i < 1000; i++)
        ((int32_t *)b.data[node->in[0]])[i] = 1;
    for (int64_t i = 0; i < 1000 * 5; i++)
        ((float *)b.gradients[node->out[0]])[i] = 1;
    run(&b, 0);
    for (int64_t i = 0; i < 3 * 5; i++)
        assert_true(tide_number(b.gradients[node->in[1]], TIDE_BF16, i) == (i / 5 == 1 ? 1000 : 0));
    for (int64_t i = 0; i < 100 * 5; i++)
        assert_true(tide_number(b.gradients[node->in[2]], TIDE_BF16, i) == 10);
    tear_down(&b);
}

/* A gradient alone has the bits that it has among others. */
static void only_what_is_wanted_is_written(void **state)
{
    (void)state;
    tide_threads_set(1);
    for (int t = 0; t < TRIALS; t++) {
        struct bench all = set_up(&trials[t], ways[0], true);
        const struct tide_node *node = all.forward.node;
        run(&all, 0);
        for (int i = 0; has_backward(&all) && tide_cpu_kernels(node->op)->backward && i < node->in_count;
             i++) {
            struct bench one = set_up(&trials[t], ways[0], true);
            for (int k = 0; k < node->in_count; k++)
                one.backward.in_grad[k] = k == i ? one.backward.in_grad[k] : NULL;
            run(&one, 0);
            if (one.backward.in_grad[i])
                assert_memory_equal(one.backward.in_grad[i], all.backward.in_grad[i],
                                    one.graph->tensors[node->in[i]].bytes);
            tear_down(&one);
        }
        tear_down(&all);
    }
}

static void have_the_same_bits(const struct bench *a, const struct bench *b)
{
    const struct tide_node *node = a->forward.node;
    for (int i = 0; i < node->out_count; i++)
        assert_memory_equal(a->data[node->out[i]], b->data[node->out[i]],
                            a->graph->tensors[node->out[i]].bytes);
    for (int i = 0; has_backward(a) && i < node->in_count; i++)
        assert_memory_equal(a->gradients[node->in[i]], b->gradients[node->in[i]],
                            a->graph->tensors[node->in[i]].bytes);
}

static void bits_are_the_same_for_every_number_of_threads(void **state)
{
    (void)state;
    for (int t = 0; t < TRIALS; t++) {
        tide_threads_set(1);
        struct bench one = set_up(&trials[t], ways[0], false);
        run(&one, 0);
        for (int threads = is_slow() ? 3 : 2; threads <= (is_slow() ? 3 : 5); threads++) {
            tide_threads_set(threads);
            struct bench more = set_up(&trials[t], ways[0], false);
            run(&more, 0);
            have_the_same_bits(&one, &more);
            tear_down(&more);
        }
        tear_down(&one);
    }
}

/* ---- what is measured */

/* Forward of a batch norm, with so many threads, as in training or by its reference. */
static struct bench measured(const struct trial *trial, int threads, bool learns, bool by_reference)
{
    tide_threads_set(threads);
    struct bench b = set_up(trial, ways[0], false);
    b.forward.learns = learns;
    (by_reference ? b.forward.node->op->reference_forward
                  : tide_cpu_kernels(b.forward.node->op)->forward)(&b.forward);
    return b;
}

static void running_statistics_follow_batches_that_are_learned_from(void **state)
{
    (void)state;
    static const struct trial trial = {"batchnorm", make_batchnorm, {300, 131}};
    struct bench before = set_up(&trial, ways[0], false), theirs = measured(&trial, 1, true, true),
                 one = measured(&trial, 1, true, false), three = measured(&trial, 3, true, false),
                 again = measured(&trial, 3, false, false);
    for (int i = 3; i < 5; i++) {
        int tensor = one.forward.node->in[i];
        size_t bytes = one.graph->tensors[tensor].bytes;
        assert_memory_not_equal(one.data[tensor], before.data[tensor], bytes);
        agree(&one, one.data, &theirs, theirs.data, tensor, "measured");
        assert_memory_equal(three.data[tensor], one.data[tensor], bytes);
        assert_memory_equal(again.data[tensor], before.data[tensor], bytes);
    }
    struct bench *all[] = {&before, &theirs, &one, &three, &again};
    for (int i = 0; i < 5; i++)
        tear_down(all[i]);
}

/* A batch with an infinity in a column has neither mean nor variance of it. */
static void statistics_that_are_no_numbers_are_left_out(void **state)
{
    (void)state;
    static const struct trial trial = {"batchnorm", make_batchnorm, {37, 5}};
    struct bench b = set_up(&trial, ways[0], false), before = set_up(&trial, ways[0], false);
    ((float *)b.data[b.forward.node->in[0]])[2] = INFINITY;
    b.forward.learns = true;
    tide_cpu_kernels(b.forward.node->op)->forward(&b.forward);
    for (int i = 3; i < 5; i++) {
        const float *now = b.data[b.forward.node->in[i]], *was = before.data[b.forward.node->in[i]];
        for (int j = 0; j < 5; j++)
            assert_int_equal(now[j] == was[j], j == 2);
    }
    tear_down(&b);
    tear_down(&before);
}

/* ---- against differences */

/* The sum of the outputs, weighted by the gradients that come in: what is differentiated. */
static double weighted(struct bench *b)
{
    const struct tide_node *node = b->forward.node;
    tide_cpu_kernels(node->op)->forward(&b->forward);
    double sum = 0;
    for (int64_t k = 0; k < count_of(b, node->out[0]); k++)
        sum += tide_number(b->data[node->out[0]], dtype_of(b, node->out[0]), k) *
               tide_number(b->gradients[node->out[0]], dtype_of(b, node->out[0]), k);
    return sum;
}

/* The largest difference between the gradient in b and the slope in its f32 twin, by the largest gradient. */
static double worst_of(const struct bench *b, struct bench *twin, int operand)
{
    int tensor = b->forward.node->in[operand];
    int64_t count = count_of(b, tensor), stride = count > 25 ? count / 25 : 1;
    float *x = twin->data[tensor];
    double worst = 0, largest = 1e-6;
    for (int64_t k = 0; k < count; k++)
        largest = fmax(largest, fabs(tide_number(b->gradients[tensor], dtype_of(b, tensor), k)));
    for (int64_t k = 0; k < count; k += stride) {
        float was = x[k], high = was + 0.01F, low = was - 0.01F;
        x[k] = high;
        double up = weighted(twin);
        x[k] = low;
        double down = weighted(twin);
        x[k] = was;
        double slope = (up - down) / ((double)high - low);
        worst = fmax(worst, fabs(slope - tide_number(b->gradients[tensor], dtype_of(b, tensor), k)));
    }
    return worst / largest;
}

/* The same numbers in f32. */
static struct bench twin_of(const struct trial *trial, const struct bench *b)
{
    struct bench twin = set_up(trial, ways[0], false);
    for (int i = 0; i < b->graph->tensor_count; i++)
        for (int64_t k = 0; dtype_of(b, i) == TIDE_BF16 && k < count_of(b, i); k++) {
            if (b->graph->tensors[i].producer < 0)
                tide_number_set(twin.data[i], TIDE_F32, k, tide_number(b->data[i], TIDE_BF16, k));
            tide_number_set(twin.gradients[i], TIDE_F32, k, tide_number(b->gradients[i], TIDE_BF16, k));
        }
    return twin;
}

static void compare_slopes(const struct trial *trial, struct types types, bool plain)
{
    struct bench b = set_up(trial, types, plain), twin = twin_of(trial, &b);
    double bound = is_narrow(types) ? slope_bf16 : slope_f32;
    run(&b, 0);
    for (int i = 0; i < b.forward.node->in_count; i++) {
        double worst = b.backward.in_grad[i] && has_backward(&b) ? worst_of(&b, &twin, i) : 0;
        if (!(worst < bound))
            fail_msg("%s, %s: the gradient of operand %d is off by %g", trial->op,
                     is_narrow(types) ? "bf16" : "f32", i, worst);
    }
    tear_down(&b);
    tear_down(&twin);
}

static void every_gradient_is_a_slope(void **state)
{
    (void)state;
    tide_threads_set(1);
    for (int t = 0; t < TRIALS; t++)
        for (int way = 0; way < WAYS; way++)
            for (int plain = 0; plain < 2; plain++)
                if (is_long() || (is_tried(t, way) && plain == (t + way) % 2))
                    compare_slopes(&trials[t], ways[way], plain);
}

/* ---- what operators are made of */

/* By one unit in the last place, 2^-23 of the result: e^x as kernel.h promises, and a little more for a
 * compiler that rounds each product; tanh, which goes through e^2x, by that of 1. */
static void exponentials_are_right_to_the_last_places(void **state)
{
    (void)state;
    double worst = 0, worst_tanh = 0;
    for (float x = -87.0F; x < 88.0F; x += 0.00137F)
        worst = fmax(worst, fabs(tide_exp(x) / exp((double)x) - 1));
    for (float x = -12.0F; x < 12.0F; x += 0.00037F)
        worst_tanh = fmax(worst_tanh, fabs(tide_tanh(x) - tanh((double)x)));
    if (!(worst < 1.6 / (1 << 23) && worst_tanh < 1.6 / (1 << 23)))
        fail_msg("e^x is off by %g, tanh by %g units", worst * (1 << 23), worst_tanh * (1 << 23));
    assert_true(tide_exp(-INFINITY) < 1e-37F && tide_exp(INFINITY) > 1e38F && isnan(tide_exp(NAN)));
}

/* Every bf16 comes back as it is; what lies between two goes to the nearer, a tie to the even one. */
static void rounding_to_bf16_is_to_the_nearest(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7f80; i++) {
        float low = tide_from_bf16((tide_bf16)i), high = tide_from_bf16((tide_bf16)(i + 1));
        float tie = i + 1 < 0x7f80 ? low + (high - low) / 2 : low;
        assert_int_equal(tide_to_bf16(low), i);
        assert_int_equal(tide_narrow(low), i);
        assert_int_equal(tide_to_bf16(-low), 0x8000 | i);
        if (i + 1 >= 0x7f80)
            continue;
        assert_int_equal(tide_to_bf16(tie), i + (i & 1));
        assert_int_equal(tide_narrow(nextafterf(tie, 0)), i);
        assert_int_equal(tide_narrow(nextafterf(tie, INFINITY)), i + 1);
    }
    assert_true(isnan(tide_from_bf16(tide_narrow(NAN))) && isnan(tide_from_bf16(tide_to_bf16(-NAN))));
    assert_true(isinf(tide_from_bf16(tide_narrow(INFINITY))));
}

/* ---- the update, which is no operator but has a definition too */

enum { COUNT = 40007 };

/* m, v and weight each have one rounding of their own a step, and the quotient five: eight of them, by the
 * largest weight, is the bound after three steps. */
static void the_update_is_adamws(void **state)
{
    (void)state;
    static float weight[COUNT], m[COUNT], v[COUNT], gradient[COUNT];
    static double weight0[COUNT], m0[COUNT], v0[COUNT];
    struct tide_optimizer_step how = {
        .rate = 0.125F, .beta1 = 0.75F, .beta2 = 0.9375F, .epsilon = 0.0078125F};
    how.decay = 0.5F;
    how.scale = 0.25F;
    tide_threads_set(2);
    for (int i = 0; i < COUNT; i++)
        weight0[i] = weight[i] = uniform();
    for (how.step = 1; how.step <= 3; how.step++) {
        for (int i = 0; i < COUNT; i++)
            gradient[i] = uniform();
        tide_update_adamw(weight, m, v, gradient, COUNT, &how);
        for (int i = 0; i < COUNT; i++) {
            double g = 0.25 * gradient[i];
            m0[i] = 0.75 * m0[i] + 0.25 * g;
            v0[i] = 0.9375 * v0[i] + 0.0625 * g * g;
            double steep = sqrt(v0[i] / (1 - pow(0.9375, (double)how.step))) + 0.0078125;
            weight0[i] -= 0.125 * (0.5 * weight0[i] + m0[i] / (1 - pow(0.75, (double)how.step)) / steep);
            if (!(fabs(weight[i] - weight0[i]) <= 8.0 / (1 << 24)))
                fail_msg("step %d, number %d: %.9g is not %.9g", (int)how.step, i, (double)weight[i],
                         weight0[i]);
        }
    }
}

/* More numbers than are summed at a time. */
static void squares_are_summed_to_the_last(void **state)
{
    (void)state;
    int64_t count = (256LL << 15) + (5 << 15) + 77;
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    double expected = 0; /* of whole numbers: exact in any order */
    for (int64_t i = 0; i < count; i++) {
        x[i] = i == count - 1 ? 1000 : (float)(i % 3);
        expected += (double)x[i] * x[i];
    }
    for (int threads = 1; threads <= 3; threads++) {
        tide_threads_set(threads);
        assert_true(tide_update_squares(x, TIDE_F32, count) == expected);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_is_tried_and_has_a_reference),
        cmocka_unit_test(every_operator_agrees_with_its_reference),
        cmocka_unit_test(rows_of_a_token_are_summed_before_they_are_rounded),
        cmocka_unit_test(only_what_is_wanted_is_written),
        cmocka_unit_test(bits_are_the_same_for_every_number_of_threads),
        cmocka_unit_test(running_statistics_follow_batches_that_are_learned_from),
        cmocka_unit_test(statistics_that_are_no_numbers_are_left_out),
        cmocka_unit_test(every_gradient_is_a_slope),
        cmocka_unit_test(exponentials_are_right_to_the_last_places),
        cmocka_unit_test(rounding_to_bf16_is_to_the_nearest),
        cmocka_unit_test(the_update_is_adamws),
        cmocka_unit_test(squares_are_summed_to_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
