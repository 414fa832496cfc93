/*
 * test_rt_machine.c - a small GPT under every plan: the same bits for the same number of threads, and the
 * right ones.
 */
#include "convert_rows.h"
#include "lent.h"
#include "rt/cpu/cpu_device.h"
#include "rt/machine.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/update.h"
#include "train/gpt.h"
#include "sanitized.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, SEQUENCE = 21, BLOCKS = 3, STEPS = 3 };

static const struct tide_gpt_config config = {.vocabulary = 31,
                                              .positions = 40,
                                              .channels = 24,
                                              .heads = 3,
                                              .blocks = BLOCKS,
                                              .hidden = 50,
                                              .epsilon = 1e-5F};

struct model {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_gpt gpt;
};

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

static struct model model_of(const struct tide_gpt_config *shape, enum tide_dtype compute, int64_t batch)
{
    struct tide_err err;
    struct model m = {.graph = tide_graph_new(compute)};
    assert_non_null(m.graph);
    ok(tide_gpt_build(m.graph, shape, batch, SEQUENCE, &m.gpt, &err), &err);
    int64_t *tile = m.graph->nodes[m.graph->programs[m.gpt.train].end - 1]
                        .numbers; /* several of each, the last ones smaller */
    tile[0] = 16;
    tile[1] = 8;
    m.device = &tide_cpu_device;
    return m;
}

static struct model new_model_of(enum tide_dtype compute, int64_t batch)
{
    return model_of(&config, compute, batch);
}

static struct model new_model(enum tide_dtype compute)
{
    return new_model_of(compute, BATCH);
}

static void free_model(struct model *m)
{
    tide_graph_free(m->graph);
}

/* Sequences from `first` on; each has as many targets that count. */
static void fill_batch(const struct model *m, struct tide_machine *machine, int64_t first)
{
    int32_t *tokens = tide_machine_input(machine, m->gpt.tokens),
            *targets = tide_machine_input(machine, m->gpt.targets);
    for (int64_t i = 0; i < m->graph->tensors[m->gpt.tokens].dims[0]; i++) {
        int64_t at = first * SEQUENCE + i;
        tokens[i] = (int32_t)(at * at % 31);
        targets[i] = i % SEQUENCE % 7 ? (int32_t)((at + 1) * (at + 1) % 31) : -1;
    }
}

static struct tide_machine *new_machine(const struct model *m, const struct tide_plan *plan)
{
    struct tide_err err;
    struct tide_machine *machine;
    ok(tide_machine_new(m->graph, m->device, plan, &machine, &err), &err);
    uint64_t seed = 7;
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        float *weight = lent(machine, i);
        for (int64_t k = 0; k < tide_tensor_count(t); k++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            weight[k] =
                ((float)(seed >> 40) / 8388608.0F - 1.0F) * 0.2F + (strstr(t->name, "ln_") ? 1.0F : 0);
        }
    }
    fill_batch(m, machine, 0);
    return machine;
}

static struct tide_update_rule rule_of(float clip)
{
    return (struct tide_update_rule){
        .step = {.rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .decay = 0.1F},
        .clip = clip,
        .micro_batches = 1};
}

/* All weights and moments after a few steps of so many micro-batches, as one block. Caller frees. */
static char *train(const struct model *m, const struct tide_plan *plan, float clip, int64_t micro_batches,
                   float *ret_loss)
{
    struct tide_machine *machine = new_machine(m, plan);
    struct tide_update_rule rule = rule_of(clip);
    rule.micro_batches = micro_batches;
    for (int step = 1; step <= (is_slow() ? 2 : STEPS); step++) {
        rule.step.step = step;
        for (int64_t i = 0; i < micro_batches; i++) {
            fill_batch(m, machine, i * BATCH);
            *ret_loss = tide_machine_pass(machine, i, &rule);
        }
        tide_machine_update(machine, &rule);
    }
    assert_int_equal(tide_machine_high_bytes(machine), plan->total);
    char *state = malloc(plan->bytes[TIDE_TRAINED] + plan->bytes[TIDE_OPTIMIZER]);
    assert_non_null(state);
    memcpy(state, lent(machine, m->gpt.token_table), plan->bytes[TIDE_TRAINED] + plan->bytes[TIDE_OPTIMIZER]);
    tide_machine_free(machine);
    return state;
}

static void gives_these_bits(const struct model *m, const struct tide_choices *choices, float clip,
                             int64_t micro_batches, char **first)
{
    struct tide_err err;
    struct tide_plan plan;
    float loss = NAN;
    ok(tide_plan_make(m->graph, m->device, choices, &plan, &err), &err);
    char *state = train(m, &plan, clip, micro_batches, &loss);
    assert_true(loss < 3.6F);
    if (!*first) {
        *first = state;
        return;
    }
    if (memcmp(*first, state, plan.bytes[TIDE_TRAINED] + plan.bytes[TIDE_OPTIMIZER]) != 0)
        fail_msg("%d blocks again, %d quarters of the loss%s: other bits, %s, %d threads", choices->recompute,
                 choices->recompute_logits, choices->fused ? ", fused" : "",
                 m->graph->compute == TIDE_BF16 ? "bf16" : "f32", tide_threads());
    free(state);
}

static void every_plan_gives_the_same_bits(const struct model *m, float clip, int64_t micro_batches)
{
    char *first = NULL;
    struct tide_choices choices = {.clips = clip > 0};
    bool every = !is_slow() && tide_threads() < (is_long() ? 3 : 2);
    int step = !every ? TIDE_QUARTERS : is_long() ? 1 : 2;
    for (int fused = 0; fused < (micro_batches == 1 ? 2 : 1); fused++)
        for (choices.recompute = 0; choices.recompute <= BLOCKS; choices.recompute += is_slow() ? BLOCKS : 1)
            for (choices.recompute_logits = 0; choices.recompute_logits <= TIDE_QUARTERS;
                 choices.recompute_logits += step) {
                choices.fused = fused;
                gives_these_bits(m, &choices, clip, micro_batches, &first);
            }
    free(first);
}

static void recomputing_chunking_and_fusing_change_no_bit(void **state)
{
    (void)state;
    for (int threads = 1; threads <= (is_slow() ? 2 : 3); threads++) {
        tide_threads_set(threads);
        for (int dtype = TIDE_F32; dtype <= TIDE_BF16; dtype++) {
            struct model m = new_model((enum tide_dtype)dtype);
            every_plan_gives_the_same_bits(&m, 0.5F, 1);
            if (threads != 2)
                every_plan_gives_the_same_bits(&m, 0, 1);
            if (dtype == TIDE_F32)
                every_plan_gives_the_same_bits(&m, 0.5F, 3);
            free_model(&m);
        }
    }
}

/* However many there are, and however many of them work. */
static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int dtype = TIDE_F32; dtype <= TIDE_BF16; dtype++) {
        char *first = NULL;
        for (int threads = 1; threads <= 3; threads++)
            for (int used = 1; used <= threads; used++) {
                struct tide_err err;
                struct tide_choices choices = {.clips = true};
                struct tide_plan plan;
                float loss = NAN;
                tide_threads_set(threads);
                tide_threads_use(used);
                struct model m = new_model((enum tide_dtype)dtype);
                ok(tide_plan_make(m.graph, m.device, &choices, &plan, &err), &err);
                char *trained = train(&m, &plan, 0.5F, 1, &loss);
                first = first ? first : trained;
                assert_memory_equal(trained, first, plan.bytes[TIDE_TRAINED] + plan.bytes[TIDE_OPTIMIZER]);
                if (trained != first)
                    free(trained);
                free_model(&m);
            }
        free(first);
    }
}

/* Large enough for tiles, which do some of the last step's update while they multiply; fused, it is done at
 * once. */
static void an_update_that_waits_gives_the_same_bits(void **state)
{
    (void)state;
    static const struct tide_gpt_config large = {.vocabulary = 31,
                                                 .positions = 40,
                                                 .channels = 256,
                                                 .heads = 4,
                                                 .blocks = 1,
                                                 .hidden = 2048,
                                                 .epsilon = 1e-5F};
    for (int threads = is_slow() ? 2 : 1; threads <= (is_slow() ? 2 : 3); threads++) {
        tide_threads_set(threads);
        struct model m = model_of(&large, TIDE_F32, 6);
        char *states[2];
        size_t bytes = 0;
        for (int fused = 0; fused < 2; fused++) {
            struct tide_err err;
            struct tide_choices choices = {.clips = true, .fused = fused};
            struct tide_plan plan;
            float loss = NAN;
            ok(tide_plan_make(m.graph, m.device, &choices, &plan, &err), &err);
            states[fused] = train(&m, &plan, 0.5F, 1, &loss);
            assert_true(isfinite(loss));
            bytes = plan.bytes[TIDE_TRAINED] + plan.bytes[TIDE_OPTIMIZER];
        }
        assert_memory_equal(states[0], states[1], bytes);
        free(states[0]);
        free(states[1]);
        free_model(&m);
    }
}

/* Eight sequences at once, and as four times two. Sums over rows have another order, so gradients agree to a
 * few roundings (2^-24 is 6e-8), by the norm of each. */
static void micro_batches_add_up_to_one_batch(void **state)
{
    (void)state;
    struct tide_err err;
    struct model whole = new_model_of(TIDE_F32, 8), part = new_model_of(TIDE_F32, 2);
    struct tide_choices choices = {.clips = true};
    struct tide_plan plan;
    ok(tide_plan_make(whole.graph, whole.device, &choices, &plan, &err), &err);
    struct tide_machine *once = new_machine(&whole, &plan);
    ok(tide_plan_make(part.graph, part.device, &choices, &plan, &err), &err);
    struct tide_machine *often = new_machine(&part, &plan);
    struct tide_update_rule rule = rule_of(1), quarter = rule;
    quarter.micro_batches = 4;
    double loss = tide_machine_pass(once, 0, &rule), mean = 0;
    for (int i = 0; i < 4; i++) {
        fill_batch(&part, often, 2 * i);
        mean += tide_machine_pass(often, i, &quarter) / 4.0;
    }
    assert_true(fabs(loss - mean) < 1e-6 * loss);
    for (int i = 0; i < whole.graph->tensor_count; i++) {
        const struct tide_tensor *t = &whole.graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        const float *a = lent_gradient(once, i), *b = lent_gradient(often, i);
        double norm = sqrt(tide_update_squares(a, TIDE_F32, tide_tensor_count(t)));
        for (int64_t k = 0; k < tide_tensor_count(t); k++)
            if (!(fabs((double)a[k] - b[k]) <= 1e-6 * norm))
                fail_msg("'%s': %g at once, %g in parts", t->name, (double)a[k], (double)b[k]);
    }
    tide_machine_free(once);
    tide_machine_free(often);
    free_model(&whole);
    free_model(&part);
}

/* What is added to all keys changes no probability: its gradient is rounding alone, and may be none. */
static bool is_bias_of_keys(const struct tide_tensor *t, int64_t row)
{
    return strstr(t->name, "c_attn.bias") && row / (t->dims[0] / 3) == 1;
}

/* Every row of every parameter, but for places that no sequence reaches. */
static void every_parameter_gets_a_gradient(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(TIDE_F32);
    struct tide_choices choices = {0};
    struct tide_plan plan;
    ok(tide_plan_make(m.graph, m.device, &choices, &plan, &err), &err);
    struct tide_machine *machine = new_machine(&m, &plan);
    struct tide_update_rule rule = rule_of(0);
    tide_machine_pass(machine, 0, &rule);
    for (int i = 0; i < m.graph->tensor_count; i++) {
        const struct tide_tensor *t = &m.graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        const float *gradient = lent_gradient(machine, i);
        int64_t columns = tide_tensor_count(t) / t->dims[0];
        for (int64_t row = 0; row < t->dims[0]; row++) {
            int64_t moved = 0;
            for (int64_t k = row * columns; k < (row + 1) * columns; k++)
                moved += isfinite(gradient[k]) && gradient[k] != 0;
            if ((moved == 0) != (i == m.gpt.position_table && row >= SEQUENCE) && !is_bias_of_keys(t, row))
                fail_msg("row %lld of '%s' gets %s gradient", (long long)row, t->name, moved ? "a" : "no");
        }
    }
    tide_machine_free(machine);
    free_model(&m);
}

static float evaluate(const struct model *m, struct tide_machine *machine)
{
    tide_machine_run(machine, m->gpt.evaluate);
    return *(const float *)tide_machine_result(machine, m->gpt.evaluate, m->gpt.loss);
}

/* A model whose matrices are stored in a type. Frozen, it has nothing but losses. */
static struct model stored_model(enum tide_dtype stored, enum tide_dtype compute,
                                 const struct tide_optimizer *optimizer)
{
    struct tide_err err;
    struct model m = {.graph = tide_graph_new(compute)};
    assert_non_null(m.graph);
    m.graph->stored = stored;
    m.graph->freezes = stored == TIDE_I8;
    m.graph->optimizer = optimizer;
    ok(tide_gpt_build(m.graph, &config, BATCH, SEQUENCE, &m.gpt, &err), &err);
    m.device = &tide_cpu_device;
    return m;
}

/* What is stored in fewer bits computes as the numbers that it stands for. */
static void stored_numbers_compute_as_themselves(void **state)
{
    (void)state;
    static const enum tide_dtype types[] = {TIDE_BF16, TIDE_I8};
    for (int which = 0; which < 4; which++) {
        struct tide_err err;
        struct tide_choices none = {0};
        struct tide_plan plan;
        struct model narrow =
                         stored_model(types[which / 2], which % 2 ? TIDE_BF16 : TIDE_F32, tide_optimizers[0]),
                     wide = stored_model(TIDE_F32, which % 2 ? TIDE_BF16 : TIDE_F32, tide_optimizers[0]);
        struct tide_machine *a, *b;
        ok(tide_plan_make(wide.graph, wide.device, &none, &plan, &err), &err);
        b = new_machine(&wide, &plan);
        ok(tide_plan_make(narrow.graph, narrow.device, &none, &plan, &err), &err);
        ok(tide_machine_new(narrow.graph, narrow.device, &plan, &a, &err), &err);
        fill_batch(&narrow, a, 0);
        for (int i = 0; i < wide.graph->tensor_count; i++) {
            const struct tide_tensor *t = &narrow.graph->tensors[i];
            if (t->role != TIDE_PARAMETER)
                continue;
            int64_t columns = tide_tensor_columns(t), rows = tide_tensor_rows(t);
            convert_rows(lent(a, i), t->dtype, lent(b, i), TIDE_F32, rows, columns);
            convert_rows(lent(b, i), TIDE_F32, lent(a, i), t->dtype, rows, columns);
        }
        float losses[2] = {evaluate(&narrow, a), evaluate(&wide, b)};
        assert_true(losses[0] == losses[1]);
        tide_machine_free(a);
        tide_machine_free(b);
        free_model(&narrow);
        free_model(&wide);
    }
}

/* All that training changes: weights and the optimizer's state. Caller frees. */
static char *trained_bytes(const struct model *m, const struct tide_plan *plan, size_t *ret_bytes)
{
    struct tide_err err;
    struct tide_machine *machine;
    struct tide_update_rule rule = rule_of(0.5F);
    float loss = 0, first = 0;
    ok(tide_machine_new(m->graph, m->device, plan, &machine, &err), &err);
    fill_batch(m, machine, 0);
    uint64_t seed = 7;
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        for (int64_t k = 0; t->role == TIDE_PARAMETER && k < tide_tensor_count(t); k++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            tide_number_set(lent(machine, i), t->dtype, k,
                            ((double)(seed >> 40) / 8388608.0 - 1.0) * 0.2 +
                                (strstr(t->name, "ln_") ? 1 : 0));
        }
    }
    for (int step = 1; step <= 2 * STEPS; step++) {
        rule.step.step = step;
        loss = tide_machine_pass(machine, 0, &rule);
        first = step == 1 ? loss : first;
        tide_machine_update(machine, &rule);
    }
    assert_true(loss < first);
    assert_int_equal(tide_machine_high_bytes(machine), plan->total);
    *ret_bytes = plan->bytes[TIDE_TRAINED] + plan->bytes[TIDE_OPTIMIZER];
    char *copy = malloc(*ret_bytes);
    assert_non_null(copy);
    memcpy(copy, lent(machine, m->gpt.token_table), *ret_bytes);
    tide_machine_free(machine);
    return copy;
}

/* Of each, with weights of either type: fused or not, recomputed or not, on one thread or three. */
static void every_optimizer_gives_the_same_bits_under_every_plan(void **state)
{
    (void)state;
    for (int i = 0; tide_optimizers[i]; i++)
        for (int stored = TIDE_F32; stored <= TIDE_BF16; stored++) {
            char *first = NULL;
            for (int which = 0; which < 8; which += is_slow() ? 3 : 1) { /* 3: each at least once */
                struct tide_err err;
                struct tide_choices choices = {
                    .fused = which & 1, .recompute = which & 2 ? BLOCKS : 0, .clips = true};
                struct tide_plan plan;
                size_t bytes;
                tide_threads_set(which & 4 ? 3 : 1);
                struct model m = stored_model((enum tide_dtype)stored, TIDE_F32, tide_optimizers[i]);
                ok(tide_plan_make(m.graph, m.device, &choices, &plan, &err), &err);
                assert_int_equal(plan.bytes[TIDE_GRADIENTS], choices.fused ? 0 : plan.bytes[TIDE_TRAINED]);
                char *now = trained_bytes(&m, &plan, &bytes);
                if (first && memcmp(first, now, bytes) != 0)
                    fail_msg("%s, weights %d, plan %d: other bits", tide_optimizers[i]->name, stored, which);
                if (first)
                    free(now);
                first = first ? first : now;
                free_model(&m);
            }
            free(first);
        }
}

/* A frozen part has no gradient, no state and stays as it is; what depends on nothing that trains has no
 * gradient either. */
static void what_is_frozen_costs_nothing_and_stays(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_choices none = {0};
    struct tide_plan plan, all;
    struct tide_update_rule rule = rule_of(0.5F);
    struct model m = {.graph = tide_graph_new(TIDE_F32)}, whole = new_model(TIDE_F32);
    int64_t dims[2] = {config.hidden, config.channels};
    int trained = tide_graph_parameter(m.graph, "h.2.mlp.c_proj.weight", true, 2, dims);
    m.graph->freezes = true; /* all but the last block's last product */
    ok(tide_gpt_build(m.graph, &config, BATCH, SEQUENCE, &m.gpt, &err), &err);
    m.device = &tide_cpu_device;
    ok(tide_plan_make(m.graph, m.device, &none, &plan, &err), &err);
    ok(tide_plan_make(whole.graph, whole.device, &none, &all, &err), &err);
    assert_int_equal(plan.bytes[TIDE_GRADIENTS], tide_aligned((size_t)(dims[0] * dims[1]) * 4));
    assert_int_equal(plan.bytes[TIDE_OPTIMIZER], 2 * plan.bytes[TIDE_GRADIENTS]);
    assert_true(plan.layouts[m.gpt.train].bytes < all.layouts[whole.gpt.train].bytes / 2);
    struct tide_machine *machine = new_machine(&m, &plan);
    size_t frozen = plan.bytes[TIDE_FROZEN];
    char *before = malloc(frozen);
    assert_non_null(before);
    char *home = (char *)lent(machine, trained) - frozen;
    memcpy(before, home, frozen);
    float first = tide_machine_pass(machine, 0, &rule), last = first;
    for (int step = 1; step <= 5; step++) {
        rule.step.step = step;
        last = tide_machine_pass(machine, 0, &rule);
        tide_machine_update(machine, &rule);
    }
    lent(machine, trained);
    assert_true(last < first);
    assert_memory_equal(before, home, frozen);
    assert_null(lent_gradient(machine, m.gpt.token_table));
    free(before);
    tide_machine_free(machine);
    free_model(&m);
    free_model(&whole);
}

/* The slope of the loss along the gradient is its squared norm: the whole backward pass against one
 * difference. */
static void the_gradient_is_the_slope_of_the_loss(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(TIDE_F32);
    struct tide_choices choices = {.recompute = 2};
    struct tide_plan plan;
    ok(tide_plan_make(m.graph, m.device, &choices, &plan, &err), &err);
    struct tide_machine *machine = new_machine(&m, &plan);
    struct tide_update_rule rule = rule_of(0);
    tide_machine_pass(machine, 0, &rule);
    double squares = 0, losses[2];
    for (int i = 0; i < m.graph->tensor_count; i++)
        if (m.graph->tensors[i].role == TIDE_PARAMETER)
            squares += tide_update_squares(lent_gradient(machine, i), TIDE_F32,
                                           tide_tensor_count(&m.graph->tensors[i]));
    double step = 1e-2 / sqrt(squares);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < m.graph->tensor_count; i++) {
            if (m.graph->tensors[i].role != TIDE_PARAMETER)
                continue;
            float *weight = lent(machine, i);
            const float *gradient = lent_gradient(machine, i);
            for (int64_t k = 0; k < tide_tensor_count(&m.graph->tensors[i]); k++)
                weight[k] += (float)((side ? -2 : 1) * step) * gradient[k];
        }
        losses[side] = evaluate(&m, machine);
    }
    double slope = (losses[0] - losses[1]) / (2 * step);
    if (!(fabs(slope / squares - 1) < 5e-3))
        fail_msg("the loss rises by %g along a gradient of %g", slope, squares);
    tide_machine_free(machine);
    free_model(&m);
}

/* What the loss is of. */
enum { OF_NORM, OF_SUM, OF_PRODUCT, ENDS };

/* A graph in which gradients meet in every way: a sum of one thing with itself, sums in a row, a value that
 * is used before and after a sum, a block around some of it, and at the end a product that could add to what
 * it reads. */
static struct model new_tangle(int end)
{
    struct model m = {.graph = tide_graph_new(TIDE_F32), .device = &tide_cpu_device};
    struct tide_graph *g = m.graph;
    struct tide_err err;
    int64_t rows = 2 * SEQUENCE, C = 12, table[2] = {31, C}, places[2] = {SEQUENCE, C}, square[2] = {C, C};
    assert_non_null(g);
    m.gpt.tokens = tide_graph_tensor(g, "tokens", TIDE_INPUT, TIDE_I32, 1, &rows);
    m.gpt.targets = tide_graph_tensor(g, "targets", TIDE_INPUT, TIDE_I32, 1, &rows);
    m.gpt.token_table = tide_graph_parameter(g, "token_table", true, 2, table);
    m.gpt.position_table = tide_graph_parameter(g, "position_table", true, 2, places);
    int weight = tide_graph_parameter(g, "ln_weight", false, 1, &C),
        bias = tide_graph_parameter(g, "bias", false, 1, &C),
        matrix = tide_graph_parameter(g, "matrix", true, 2, square);
    m.gpt.train = tide_graph_program(g, "train", true);
    int x = tide_op_embed(g, m.gpt.tokens, m.gpt.token_table, m.gpt.position_table, -1, SEQUENCE);
    int twice = tide_op_add(g, x, x);
    tide_graph_block(g);
    int normal = tide_op_norm(g, twice, weight, bias, 1e-5F);
    int first = tide_op_linear(g, normal, matrix, bias, true);
    int sum = tide_op_add(g, first, twice);
    int bent = tide_op_gelu(g, sum);
    sum = tide_op_add(g, tide_op_add(g, sum, first), bent);
    tide_graph_block_end(g);
    sum = tide_op_add(g, x, tide_op_add(g, twice, sum));
    if (end != OF_SUM)
        sum = tide_op_norm(g, sum, weight, bias, 1e-5F);
    if (end == OF_PRODUCT)
        sum = tide_op_add(g, sum, tide_op_linear(g, sum, matrix, bias, true));
    struct tide_head head = {.rows = 16, .tokens = 8, .loss = &tide_cross_entropy, .constants = -1};
    m.gpt.loss = tide_op_head(g, sum, m.gpt.token_table, m.gpt.targets, &head);
    m.gpt.evaluate = tide_graph_forward_of(g, "evaluate", m.gpt.train);
    ok(tide_graph_failed(g, &err), &err);
    return m;
}

/* The kernel of a loss writes its gradient and cannot add to one. */
static void a_loss_is_the_last_to_read_its_tensor(void **state)
{
    (void)state;
    struct tide_head head = {.rows = 16, .tokens = 8, .loss = &tide_cross_entropy, .constants = -1};
    int64_t C = 12, square[2] = {C, C}, rows = 2 * SEQUENCE, table[2] = {31, C};
    for (int second = 0; second < 2; second++)
        for (int trains = 0; trains < 2; trains++) {
            struct tide_err err = {0};
            struct tide_graph *g = tide_graph_new(TIDE_F32);
            int targets = tide_graph_tensor(g, "targets", TIDE_INPUT, TIDE_I32, 1, &rows);
            int tokens = tide_graph_parameter(g, "table", true, 2, table);
            int matrix = tide_graph_parameter(g, "matrix", true, 2, square);
            tide_graph_program(g, "program", trains);
            int x = tide_op_embed(g, targets, tokens, tokens, -1, SEQUENCE), copy = tide_op_scale(g, x, 1);
            tide_op_head(g, copy, tokens, targets, &head);
            tide_op_head(g, x, tokens, targets, &head);
            assert_int_equal(tide_graph_failed(g, &err), 0);
            if (second)
                tide_op_head(g, x, tokens, targets, &head);
            else
                tide_op_linear(g, x, matrix, -1, true);
            assert_int_equal(tide_graph_failed(g, &err), trains ? -1 : 0);
            if (trains)
                assert_string_equal(
                    err.text, second ? "head: 'embedding' has a loss, after which nothing may read it"
                                     : "linear: 'embedding' has a loss, after which nothing may read it");
            tide_graph_free(g);
        }
}

/* In each parameter alone the slope of the loss along its gradient is the gradient's norm. */
static void slopes_are_gradients(const struct model *m)
{
    struct tide_err err;
    struct tide_update_rule rule = rule_of(0);
    for (int again = 0; again < 2; again++) {
        struct tide_choices choices = {.recompute = again};
        struct tide_plan plan;
        ok(tide_plan_make(m->graph, m->device, &choices, &plan, &err), &err);
        struct tide_machine *machine = new_machine(m, &plan);
        tide_machine_pass(machine, 0, &rule);
        for (int i = 0; i < m->graph->tensor_count; i++) {
            const struct tide_tensor *t = &m->graph->tensors[i];
            if (t->role != TIDE_PARAMETER)
                continue;
            float *weight = lent(machine, i);
            const float *gradient = lent_gradient(machine, i);
            double norm = sqrt(tide_update_squares(gradient, TIDE_F32, tide_tensor_count(t))), losses[3];
            for (int side = 0; side < 3; side++) { /* up, down, back */
                for (int64_t k = 0; k < tide_tensor_count(t); k++)
                    weight[k] += (float)((side == 1 ? -0.02 : 0.01) / norm) * gradient[k];
                losses[side] = evaluate(m, machine);
            }
            double slope = (losses[0] - losses[1]) / 0.02;
            if (!(fabs(slope / norm - 1) < 2e-3))
                fail_msg("'%s': the loss rises by %g along a gradient of %g", t->name, slope, norm);
        }
        tide_machine_free(machine);
    }
}

static void gradients_that_meet_add_up(void **state)
{
    (void)state;
    tide_threads_set(1);
    for (int end = 0; end < ENDS; end++) {
        struct model m = new_tangle(end);
        slopes_are_gradients(&m);
        every_plan_gives_the_same_bits(&m, 0.5F, 1);
        every_plan_gives_the_same_bits(&m, 0, 1);
        free_model(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputing_chunking_and_fusing_change_no_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(an_update_that_waits_gives_the_same_bits),
        cmocka_unit_test(micro_batches_add_up_to_one_batch),
        cmocka_unit_test(every_parameter_gets_a_gradient),
        cmocka_unit_test(the_gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(stored_numbers_compute_as_themselves),
        cmocka_unit_test(every_optimizer_gives_the_same_bits_under_every_plan),
        cmocka_unit_test(what_is_frozen_costs_nothing_and_stays),
        cmocka_unit_test(a_loss_is_the_last_to_read_its_tensor),
        cmocka_unit_test(gradients_that_meet_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
