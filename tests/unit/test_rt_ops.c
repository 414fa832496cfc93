/*
 * test_rt_ops.c - each operator alone: its gradients against differences of its outputs, at odd shapes, with
 * the matrix library and without.
 */
#include "rt/op.h"
#include "rt/threads.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* The leak checker's scan of threads that a library opened later has made crashes in the checker itself. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static uint64_t seed;

static float uniform(void)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (float)(seed >> 40) / 8388608.0F - 1.0F;
}

/* One node with memory for everything it touches. */
struct bench {
    struct tide_graph *graph;
    struct tide_matmuls *matmuls;
    struct tide_call forward, backward;
    void *data[16], *gradients[16];
    size_t scratch_bytes;
};

static struct tide_graph *new_graph(enum tide_dtype compute)
{
    seed = 42;
    struct tide_graph *graph = tide_graph_new(compute);
    assert_non_null(graph);
    return graph;
}

static int add_tensor(struct tide_graph *graph, enum tide_tensor_role role, enum tide_dtype dtype,
                      int64_t rows, int64_t columns)
{
    int64_t dims[2] = {rows ? rows : columns, columns};
    return tide_graph_tensor(graph, "t", role, dtype, rows ? 2 : 1, dims);
}

static double get(const struct bench *b, int tensor, int64_t at)
{
    const struct tide_tensor *t = &b->graph->tensors[tensor];
    return t->dtype == TIDE_BF16 ? tide_from_bf16(((tide_bf16 *)b->data[tensor])[at])
                                 : ((float *)b->data[tensor])[at];
}

static void put(struct bench *b, int tensor, int64_t at, double value)
{
    const struct tide_tensor *t = &b->graph->tensors[tensor];
    if (t->dtype == TIDE_BF16)
        ((tide_bf16 *)b->data[tensor])[at] = tide_to_bf16((float)value);
    else
        ((float *)b->data[tensor])[at] = (float)value;
}

static void *memory(size_t bytes)
{
    void *got = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(got);
    memset(got, 0x7f, (bytes + 127) / 64 * 64); /* NANs: what is not written shows */
    return got;
}

static struct bench set_up(struct tide_graph *graph, bool plain)
{
    struct tide_err err = {0};
    struct bench b = {.graph = graph};
    if (tide_graph_failed(graph, &err))
        fail_msg("%s", err.text);
    assert_true(graph->tensor_count <= 16);
    if (tide_matmuls_new(plain, &b.matmuls, &err))
        fail_msg("%s", err.text);
    const struct tide_node *node = &graph->nodes[0];
    for (int direction = 0; direction < 2 && node->op->prepare; direction++)
        if (node->op->prepare(b.matmuls, graph, node, direction, &err))
            fail_msg("%s", err.text);
    for (int i = 0; i < graph->tensor_count; i++) {
        b.data[i] = memory(graph->tensors[i].bytes);
        b.gradients[i] = memory(graph->tensors[i].bytes);
        for (int64_t k = 0; graph->tensors[i].dtype == TIDE_I32 && k < graph->tensors[i].dims[0]; k++)
            ((int32_t *)b.data[i])[k] = (int32_t)(k * 3 % 5); /* words that come again */
        if (graph->tensors[i].producer >= 0 || graph->tensors[i].dtype == TIDE_I32)
            continue;
        for (int64_t k = 0; k < tide_tensor_count(&graph->tensors[i]); k++)
            put(&b, i, k, uniform());
    }
    b.forward = b.backward =
        (struct tide_call){.graph = graph, .node = node, .matmuls = b.matmuls, .loss_scale = 1};
    for (int i = 0; i < node->in_count; i++)
        b.forward.in[i] = b.backward.in[i] = b.data[node->in[i]];
    for (int i = 0; i < node->out_count; i++) {
        b.forward.out[i] = b.backward.out[i] = b.data[node->out[i]];
        b.backward.out_grad[i] = b.gradients[node->out[i]];
    }
    for (int i = 0; i < node->in_count; i++)
        if (graph->tensors[node->in[i]].dtype != TIDE_I32)
            b.backward.in_grad[i] = b.gradients[node->in[i]];
    for (int direction = 0; direction < 2 && node->op->scratch; direction++) {
        size_t bytes = node->op->scratch(b.matmuls, graph, node, direction);
        b.scratch_bytes = bytes > b.scratch_bytes ? bytes : b.scratch_bytes;
    }
    b.forward.scratch = b.backward.scratch = memory(b.scratch_bytes);
    return b;
}

static void tear_down(struct bench *b)
{
    for (int i = 0; i < b->graph->tensor_count; i++) {
        free(b->data[i]);
        free(b->gradients[i]);
    }
    free(b->forward.scratch);
    tide_matmuls_free(b->matmuls);
    tide_graph_free(b->graph);
}

/* The sum of the outputs, weighted: what is differentiated. */
static double weighted(struct bench *b, const float *weights)
{
    const struct tide_node *node = b->forward.node;
    node->op->forward(&b->forward);
    double sum = 0;
    for (int64_t k = 0; k < tide_tensor_count(&b->graph->tensors[node->out[0]]); k++)
        sum += get(b, node->out[0], k) * weights[k];
    return sum;
}

static double gradient_at(const struct bench *b, int tensor, int64_t at)
{
    return b->graph->tensors[tensor].dtype == TIDE_BF16
               ? tide_from_bf16(((tide_bf16 *)b->gradients[tensor])[at])
               : ((float *)b->gradients[tensor])[at];
}

/* The largest difference between gradient and central difference, of the largest gradient of that operand. */
static double worst_of(struct bench *b, int operand, const float *weights, double step)
{
    int tensor = b->forward.node->in[operand];
    int64_t count = tide_tensor_count(&b->graph->tensors[tensor]), stride = count > 60 ? count / 60 : 1;
    double worst = 0, largest = 1e-6;
    for (int64_t k = 0; k < count; k++)
        largest = fmax(largest, fabs(gradient_at(b, tensor, k)));
    for (int64_t k = 0; k < count; k += stride) {
        double was = get(b, tensor, k);
        put(b, tensor, k, was + step);
        double high = get(b, tensor, k), up = weighted(b, weights);
        put(b, tensor, k, was - step);
        double low = get(b, tensor, k), down = weighted(b, weights);
        put(b, tensor, k, was);
        worst = fmax(worst, fabs((up - down) / (high - low) - gradient_at(b, tensor, k)));
    }
    return worst / largest;
}

/* Every gradient of the one node, first written, then added to. f32: differences of step 1e-2 in f32
 * arithmetic agree to 5e-3; bf16 rounds every output to 3 digits, so that differences are taken over 0.25 and
 * agree to 5e-2. */
static void check_gradients(struct tide_graph *graph, bool plain)
{
    struct bench b = set_up(graph, plain);
    bool narrow = graph->compute == TIDE_BF16;
    const struct tide_node *node = b.forward.node;
    int64_t outputs = tide_tensor_count(&graph->tensors[node->out[0]]);
    float *weights = malloc((size_t)outputs * sizeof *weights);
    assert_non_null(weights);
    for (int64_t k = 0; k < outputs; k++)
        weights[k] = node->op->is_loss ? 1 : uniform();
    node->op->forward(&b.forward);
    for (int64_t k = 0; k < outputs; k++) {
        if (graph->tensors[node->out[0]].dtype == TIDE_BF16)
            weights[k] =
                tide_from_bf16(((tide_bf16 *)b.gradients[node->out[0]])[k] = tide_to_bf16(weights[k]));
        else
            ((float *)b.gradients[node->out[0]])[k] = weights[k];
    }
    node->op->backward(&b.backward);
    for (int i = 0; i < node->in_count; i++) {
        if (!b.backward.in_grad[i])
            continue;
        double worst = worst_of(&b, i, weights, narrow ? 0.25 : 1e-2);
        if (!(worst < (narrow ? 5e-2 : 5e-3)))
            fail_msg("%s: the gradient of operand %d is off by %g", node->op->name, i, worst);
        int64_t count = tide_tensor_count(&graph->tensors[node->in[i]]);
        double before = gradient_at(&b, node->in[i], count / 2);
        if (node->op->is_loss && i == 0)
            continue; /* the gradient of a loss is always the first */
        b.backward.adds = 1U << i;
        node->op->forward(&b.forward);
        node->op->backward(&b.backward);
        b.backward.adds = 0;
        double twice = gradient_at(&b, node->in[i], count / 2);
        if (!(fabs(twice - 2 * before) <= fabs(before) * (narrow ? 2e-2 : 1e-4) + 1e-5))
            fail_msg("%s: operand %d: %g added to itself is %g", node->op->name, i, before, twice);
    }
    free(weights);
    tear_down(&b);
}

static void each_way(struct tide_graph *(*make)(enum tide_dtype compute))
{
    for (int threads = 1; threads <= 3; threads += 2) {
        tide_threads_set(threads);
        check_gradients(make(TIDE_F32), true);
        check_gradients(make(TIDE_F32), false);
        check_gradients(make(TIDE_BF16), true);
        check_gradients(make(TIDE_BF16), false);
    }
}

static struct tide_graph *make_linear(enum tide_dtype compute, bool wide)
{
    struct tide_graph *graph = new_graph(compute);
    int x = add_tensor(graph, TIDE_INPUT, compute, 7, 13),
        w = add_tensor(graph, TIDE_PARAMETER, TIDE_F32, 13, 19),
        bias = add_tensor(graph, TIDE_PARAMETER, TIDE_F32, 0, 19);
    tide_op_linear(graph, x, w, bias, wide);
    return graph;
}

static struct tide_graph *make_narrow_linear(enum tide_dtype compute)
{
    return make_linear(compute, false);
}

static struct tide_graph *make_wide_linear(enum tide_dtype compute)
{
    return make_linear(compute, true);
}

static void linear_has_the_gradients_of_its_differences(void **state)
{
    (void)state;
    each_way(make_narrow_linear);
    each_way(make_wide_linear);
}

static struct tide_graph *make_norm(enum tide_dtype compute)
{
    struct tide_graph *graph = new_graph(compute);
    int x = add_tensor(graph, TIDE_INPUT, TIDE_F32, 5, 37),
        w = add_tensor(graph, TIDE_PARAMETER, TIDE_F32, 0, 37),
        bias = add_tensor(graph, TIDE_PARAMETER, TIDE_F32, 0, 37);
    tide_op_norm(graph, x, w, bias, 1e-5F);
    return graph;
}

static void norm_has_the_gradients_of_its_differences(void **state)
{
    (void)state;
    each_way(make_norm);
}

static struct tide_graph *make_gelu(enum tide_dtype compute)
{
    struct tide_graph *graph = new_graph(compute);
    tide_op_gelu(graph, add_tensor(graph, TIDE_INPUT, compute, 3, 41));
    return graph;
}

static void gelu_has_the_gradients_of_its_differences(void **state)
{
    (void)state;
    each_way(make_gelu);
}

static struct tide_graph *make_attention(enum tide_dtype compute)
{
    struct tide_graph *graph = new_graph(compute);
    tide_op_attention(graph, add_tensor(graph, TIDE_INPUT, compute, 2 * 53, 3 * 2 * 5), 2, 53);
    return graph;
}

static struct tide_graph *make_wide_attention(enum tide_dtype compute)
{
    struct tide_graph *graph = new_graph(compute);
    tide_op_attention(graph, add_tensor(graph, TIDE_INPUT, compute, 17, 3 * 64), 1, 17);
    return graph;
}

/* bf16 is too coarse for differences of attention: its inputs are rounded, the arithmetic is that of f32. */
static void attention_has_the_gradients_of_its_differences(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        tide_threads_set(threads);
        check_gradients(make_attention(TIDE_F32), false);
        check_gradients(make_wide_attention(TIDE_F32), false);
    }
}

static struct tide_graph *make_head(enum tide_dtype compute)
{
    struct tide_graph *graph = new_graph(compute);
    int x = add_tensor(graph, TIDE_INPUT, compute, 11, 13),
        table = add_tensor(graph, TIDE_PARAMETER, TIDE_F32, 29, 13),
        targets = add_tensor(graph, TIDE_INPUT, TIDE_I32, 0, 11);
    tide_op_head(graph, x, table, targets, 4);
    return graph;
}

static struct tide_graph *make_embed(enum tide_dtype compute)
{
    struct tide_graph *graph = new_graph(compute);
    int tokens = add_tensor(graph, TIDE_INPUT, TIDE_I32, 0, 12),
        table = add_tensor(graph, TIDE_PARAMETER, TIDE_F32, 5, 70),
        places = add_tensor(graph, TIDE_PARAMETER, TIDE_F32, 8, 70);
    tide_op_embed(graph, tokens, table, places, 6);
    return graph;
}

/* In bf16 a difference of logits drowns in the rounding of x; the table stays f32. */
static void the_head_has_the_gradients_of_its_differences(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        tide_threads_set(threads);
        check_gradients(make_head(TIDE_F32), true);
        check_gradients(make_head(TIDE_F32), false);
    }
}

static void an_embedding_has_the_gradients_of_its_differences(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        tide_threads_set(threads);
        check_gradients(make_embed(TIDE_F32), true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_has_the_gradients_of_its_differences),
        cmocka_unit_test(norm_has_the_gradients_of_its_differences),
        cmocka_unit_test(gelu_has_the_gradients_of_its_differences),
        cmocka_unit_test(attention_has_the_gradients_of_its_differences),
        cmocka_unit_test(the_head_has_the_gradients_of_its_differences),
        cmocka_unit_test(an_embedding_has_the_gradients_of_its_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
