/*
 * test_rt_ops.c - each operator alone, at odd shapes, in f32 and in bf16, with one thread and with three: its
 * results against its plain reference, its gradients against differences.
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
#include "op_trials.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/threads.h"
#include "sanitized.h"

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
#define ADDRESS(name) &tide_op_of_##name,
    static const struct tide_op *const ops[] = {TIDE_EACH_OP(ADDRESS)};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const struct tide_op *op = ops[i];
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
    size_t bytes = tide_cpu_scratch(&(struct tide_need){b->graph, call->node, direction, (int)spared});
    call->scratch = memory(bytes);
    call->scratch_bytes = bytes;
}

/* Gradients hold numbers: those of outputs are what comes in, those of inputs what was there before. */
static struct bench set_up(const struct trial *trial, struct types types)
{
    struct tide_err err = {0};
    struct bench b = {.graph = tide_graph_new(types.compute)};
    assert_non_null(b.graph);
    b.graph->stored = types.stored;
    tide_graph_program(b.graph, "trial", false);
    trial->make(b.graph, trial->n);
    if (tide_graph_failed(b.graph, &err))
        fail_msg("%s: %s", trial->op, err.text);
    const struct tide_node *node = &b.graph->nodes[0];
    assert_string_equal(node->op->name, trial->op);
    b.forward = (struct tide_call){.graph = b.graph, .node = node, .loss_scale = 0.5F};
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
                 a->forward.node->op->name, narrow ? "bf16" : "f32", tide_matmul_name(a->graph->compute),
                 tide_threads(), (long long)a->graph->tensors[tensor].dims[0],
                 (long long)a->graph->tensors[tensor].dims[1], what, tensor, worst, largest);
}

/* What the reference makes of it, gradients written (adds[0]) and added to (adds[1]). */
static struct bench reference_of(const struct trial *trial, struct types types, unsigned adds)
{
    struct bench b = set_up(trial, types);
    const struct tide_op *op = b.forward.node->op;
    b.backward.adds = adds;
    b.forward.scratch = b.backward.scratch = (free(b.forward.scratch), free(b.backward.scratch), NULL);
    op->reference_forward(&b.forward);
    if (has_backward(&b))
        op->reference_backward(&b.backward);
    return b;
}

static void compare(const struct trial *trial, struct types types, const struct bench *written,
                    const struct bench *added)
{
    static const unsigned masks[] = {0, 7, 2, 5};
    int operands = written->forward.node->in_count;
    for (int m = is_slow() && operands > 1 ? 2 : 0; m < (operands == 1 ? 2 : 4); m++) {
        struct bench b = set_up(trial, types);
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
            for (int threads = 1; threads <= 3; threads += 2) {
                tide_threads_set(threads);
                compare(&trials[t], ways[way], &written, &added);
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
    struct bench b = set_up(&trial, (struct types){TIDE_F32, TIDE_BF16});
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
        struct bench all = set_up(&trials[t], ways[0]);
        const struct tide_node *node = all.forward.node;
        run(&all, 0);
        for (int i = 0; has_backward(&all) && tide_cpu_kernels(node->op)->backward && i < node->in_count;
             i++) {
            struct bench one = set_up(&trials[t], ways[0]);
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

/* Nor multiplied by a gradient of 0, which would leave a NaN. */
static void rows_without_a_target_are_not_read(void **state)
{
    (void)state;
    static const struct trial both[] = {{"head", make_head, {13, 5, 83, 4, 30}},
                                        {"head", make_policy, {13, 5, 83, 4, 30}}};
    for (int t = 0; t < 2; t++)
        for (int way = 0; way < WAYS; way++) {
            struct bench numbers = set_up(&both[t], ways[way]), nans = set_up(&both[t], ways[way]);
            int x = nans.forward.node->in[0];
            const int32_t *targets = nans.data[nans.forward.node->in[2]];
            for (int64_t i = 0; i < 13 * 5; i++)
                if (targets[i / 5] < 0)
                    tide_number_set(nans.data[x], dtype_of(&nans, x), i, NAN);
            run(&numbers, 0);
            run(&nans, 0);
            have_the_same_bits(&numbers, &nans);
            tear_down(&numbers);
            tear_down(&nans);
        }
}

/* A batch in which nothing is asked for. */
static void without_a_target_nothing_is_learned(void **state)
{
    (void)state;
    static const struct trial trial = {"head", make_head, {9, 5, 83, 4, 30}};
    struct bench b = set_up(&trial, ways[0]);
    const struct tide_node *node = b.forward.node;
    for (int64_t i = 0; i < 9; i++)
        ((int32_t *)b.data[node->in[2]])[i] = -1;
    run(&b, 0);
    assert_true(*(float *)b.data[node->out[0]] == 0);
    for (int64_t i = 0; i < 9; i++)
        assert_true(((float *)b.data[node->out[1]])[i] == 0);
    for (int operand = 0; operand < 2; operand++)
        for (int64_t k = 0; k < count_of(&b, node->in[operand]); k++)
            assert_true(((float *)b.gradients[node->in[operand]])[k] == 0);
    tear_down(&b);
}

static void bits_are_the_same_for_every_number_of_threads(void **state)
{
    (void)state;
    for (int t = 0; t < TRIALS; t++) {
        tide_threads_set(1);
        struct bench one = set_up(&trials[t], ways[0]);
        run(&one, 0);
        for (int threads = is_slow() ? 3 : 2; threads <= (is_slow() ? 3 : 5); threads++) {
            tide_threads_set(threads);
            struct bench more = set_up(&trials[t], ways[0]);
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
    struct bench b = set_up(trial, ways[0]);
    b.forward.learns = learns;
    (by_reference ? b.forward.node->op->reference_forward
                  : tide_cpu_kernels(b.forward.node->op)->forward)(&b.forward);
    return b;
}

static void running_statistics_follow_batches_that_are_learned_from(void **state)
{
    (void)state;
    static const struct trial trial = {"batchnorm", make_batchnorm, {300, 131}};
    struct bench before = set_up(&trial, ways[0]), theirs = measured(&trial, 1, true, true),
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
    struct bench b = set_up(&trial, ways[0]), before = set_up(&trial, ways[0]);
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
    struct bench twin = set_up(trial, ways[0]);
    for (int i = 0; i < b->graph->tensor_count; i++)
        for (int64_t k = 0; dtype_of(b, i) == TIDE_BF16 && k < count_of(b, i); k++) {
            if (b->graph->tensors[i].producer < 0)
                tide_number_set(twin.data[i], TIDE_F32, k, tide_number(b->data[i], TIDE_BF16, k));
            tide_number_set(twin.gradients[i], TIDE_F32, k, tide_number(b->gradients[i], TIDE_BF16, k));
        }
    return twin;
}

static void compare_slopes(const struct trial *trial, struct types types)
{
    struct bench b = set_up(trial, types), twin = twin_of(trial, &b);
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
            if (is_long() || is_tried(t, way))
                compare_slopes(&trials[t], ways[way]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_is_tried_and_has_a_reference),
        cmocka_unit_test(every_operator_agrees_with_its_reference),
        cmocka_unit_test(rows_of_a_token_are_summed_before_they_are_rounded),
        cmocka_unit_test(only_what_is_wanted_is_written),
        cmocka_unit_test(rows_without_a_target_are_not_read),
        cmocka_unit_test(without_a_target_nothing_is_learned),
        cmocka_unit_test(bits_are_the_same_for_every_number_of_threads),
        cmocka_unit_test(running_statistics_follow_batches_that_are_learned_from),
        cmocka_unit_test(statistics_that_are_no_numbers_are_left_out),
        cmocka_unit_test(every_gradient_is_a_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
