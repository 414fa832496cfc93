/*
 * test_train_parity.c - a small GPT-2 against PyTorch: logits, losses, every gradient, twenty steps of AdamW.
 *
 * tools/torch-reference made the numbers, in f64, and has the same formula for weights and data. How far ours
 * may be apart from them is stated in two tables below, one for f32 and one for bf16: tensors as parity.h
 * says, losses by their mean, losses and norms of steps by themselves. PyTorch's own f32 is held to the first
 * table by tests/python/test_parity.py, which reads it from here.
 */
#include "lent.h"
#include "parity.h"
#include "rt/cpu/cpu_device.h"
#include "rt/machine.h"
#include "rt/cpu/threads.h"
#include "train/sample.h"

struct bounds {
    double logits, losses, gradient, step_loss, step_norm, weight;
};

/* 2^-24 is 6e-8. Logits and losses have a few such roundings, a gradient a dozen; twenty steps make of one
 * about twenty in the loss and a thousand in the norm of the gradients, whose curvature is large. (Seen, in
 * this order: 2e-8, 1.1e-7, 3e-7, 8.5e-7, 1.7e-5, 2.2e-7.) */
static const struct bounds f32_bounds = {
    .logits = 1e-7, .losses = 5e-7, .gradient = 1e-6, .step_loss = 2e-6, .step_norm = 5e-5, .weight = 1e-6};
/* 2^-8 is 4e-3, and the same holds of it; where products are widened to f32, sums round elsewhere than
 * PyTorch's. (Seen: 2e-4, 4.9e-3, 1.1e-2, 0.11, 4.8e-3.) */
static const struct bounds bf16_bounds = {
    .logits = 1e-3, .gradient = 1.5e-2, .step_loss = 2.5e-2, .step_norm = 0.25, .weight = 1.5e-2};

enum { BATCH = 9, SEQUENCE = 29, ROWS = BATCH * SEQUENCE, STEPS = 20 };

/* ---- the same model here */

struct model {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_gpt gpt;
    struct tide_gpt_decoder decoder;
    struct tide_plan plan;
    struct tide_machine *machine;
    const struct bounds *bounds;
};

static double evaluate(const struct model *m)
{
    tide_machine_run(m->machine, m->gpt.evaluate);
    return *(const float *)tide_machine_result(m->machine, m->gpt.evaluate, m->gpt.loss);
}

static int32_t target_of(int64_t row)
{
    return row % 7 ? (int32_t)(hash("targets", row) % VOCABULARY) : -1;
}

static void fill(struct model *m)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        float *weight = lent(m->machine, i);
        for (int64_t k = 0; k < tide_tensor_count(t); k++)
            weight[k] = weight_of(t->name, k);
    }
    for (int64_t i = 0; i < ROWS; i++) {
        ((int32_t *)tide_machine_input(m->machine, m->gpt.tokens))[i] =
            (int32_t)(hash("tokens", i) % VOCABULARY);
        ((int32_t *)tide_machine_input(m->machine, m->gpt.targets))[i] = target_of(i);
    }
}

static struct model set_up(enum tide_dtype compute, struct tide_choices choices)
{
    struct tide_err err;
    struct model m = {.graph = tide_graph_new(compute),
                      .bounds = compute == TIDE_F32 ? &f32_bounds : &bf16_bounds};
    assert_non_null(m.graph);
    tide_threads_set(1);
    ok(tide_gpt_build(m.graph, &parity_config, BATCH, SEQUENCE, &m.gpt, &err), &err);
    m.device = &tide_cpu_device;
    ok(tide_gpt_build_decoder(m.graph, &parity_config, 1, SEQUENCE, &m.decoder, &err), &err);
    ok(tide_plan_make(m.graph, m.device, &choices, &m.plan, &err), &err);
    ok(tide_machine_new(m.graph, m.device, &m.plan, &m.machine, &err), &err);
    fill(&m);
    return m;
}

static void tear_down(struct model *m)
{
    tide_machine_free(m->machine);
    tide_graph_free(m->graph);
}

static const struct tide_update_rule rule = {
    .step = {.rate = 0.003F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-6F, .decay = 0.1F},
    .clip = 1.0F,
    .micro_batches = 1};

/* ---- tests */

/* Of all rows together, and of single ones. */
static void the_losses_of_rows_are_pytorchs(void **state)
{
    (void)state;
    struct model m = set_up(TIDE_F32, (struct tide_choices){0});
    const double *theirs = numbers_of("losses", "rows");
    int32_t *targets = tide_machine_input(m.machine, m.gpt.targets);
    int counted = 0;
    for (int i = 0; i < ROWS; i++)
        counted += targets[i] >= 0;
    near_by("losses", "all rows", evaluate(&m), theirs[SUM] / counted, theirs[SUM] / counted,
            m.bounds->losses);
    for (int i = 0; i < SAMPLES; i++) {
        int row = (2 * i + 1) * ROWS / (2 * SAMPLES);
        for (int k = 0; k < ROWS; k++)
            targets[k] = k == row ? target_of(k) : -1;
        near_by("losses", "one row", evaluate(&m), theirs[FIRST + i], theirs[SUM] / counted,
                m.bounds->losses);
    }
    tear_down(&m);
}

/* Through the decoder, which reads a sequence row by row: every row's; and at once: the last row's. */
static void compare_logits(enum tide_dtype compute)
{
    struct tide_err err;
    struct model m = set_up(compute, (struct tide_choices){0});
    struct tide_sampler *sampler;
    float *logits = calloc(ROWS * VOCABULARY, sizeof *logits);
    assert_non_null(logits);
    ok(tide_sampler_new(&parity_config, &m.decoder, m.machine, &sampler, &err), &err);
    int32_t tokens[ROWS];
    memcpy(tokens, tide_machine_input(m.machine, m.gpt.tokens), sizeof tokens);
    for (int i = 0; i < ROWS; i++) {
        if (i % SEQUENCE == 0)
            tide_sampler_start(sampler, tokens + i, 1);
        else
            tide_sampler_append(sampler, tokens[i]);
        memcpy(logits + i * VOCABULARY, tide_sampler_logits(sampler), VOCABULARY * sizeof *logits);
    }
    compare_tensor("logits", "all", logits, ROWS * VOCABULARY, m.bounds->logits);
    for (int last = SEQUENCE - 1; last < ROWS; last += SEQUENCE) {
        tide_sampler_start(sampler, tokens + last - SEQUENCE + 1, SEQUENCE);
        memcpy(logits + last * VOCABULARY, tide_sampler_logits(sampler), VOCABULARY * sizeof *logits);
    }
    compare_tensor("logits", "all", logits, ROWS * VOCABULARY, m.bounds->logits);
    free(logits);
    tide_sampler_free(sampler);
    tear_down(&m);
}

static void every_logit_is_pytorchs(void **state)
{
    (void)state;
    for (int compute = TIDE_F32, last = TIDE_BF16; compute <= last; compute++)
        compare_logits(compute);
}

static void compare_gradients(enum tide_dtype compute)
{
    struct model m = set_up(compute, (struct tide_choices){0});
    tide_machine_pass(m.machine, 0, &rule);
    for (int i = 0; i < m.graph->tensor_count; i++)
        if (m.graph->tensors[i].role == TIDE_PARAMETER)
            compare_tensor("gradient", m.graph->tensors[i].name, lent_gradient(m.machine, i),
                           tide_tensor_count(&m.graph->tensors[i]), m.bounds->gradient);
    tear_down(&m);
}

static void every_gradient_is_pytorchs(void **state)
{
    (void)state;
    for (int compute = TIDE_F32, last = TIDE_BF16; compute <= last; compute++)
        compare_gradients(compute);
}

static void compare_steps(enum tide_dtype compute)
{
    struct model m = set_up(compute, (struct tide_choices){.recompute = 2, .fused = true, .clips = true});
    struct tide_update_rule now = rule;
    for (int step = 1; step <= STEPS; step++) {
        char name[16];
        snprintf(name, sizeof name, "%d", step);
        const double *theirs = numbers_of("step", name);
        now.step.step = step;
        double loss = tide_machine_pass(m.machine, 0, &now), norm = tide_machine_update(m.machine, &now);
        near_by("step", name, loss, theirs[0], theirs[0], m.bounds->step_loss);
        near_by("step", name, norm, theirs[1], theirs[1], m.bounds->step_norm);
    }
    for (int i = 0; i < m.graph->tensor_count; i++) {
        const struct tide_tensor *t = &m.graph->tensors[i];
        /* Keys with a bias change no softmax: what gradient it has is rounding, and AdamW makes steps of it.
         */
        if (t->role == TIDE_PARAMETER && !strstr(t->name, "c_attn.bias"))
            compare_tensor("weight", t->name, lent(m.machine, i), tide_tensor_count(t), m.bounds->weight);
    }
    tear_down(&m);
}

static void twenty_steps_are_pytorchs(void **state)
{
    (void)state;
    for (int compute = TIDE_F32, last = TIDE_BF16; compute <= last; compute++)
        compare_steps(compute);
}

static int load_reference(void **state)
{
    (void)state;
    return load("tests/fixtures/gpt2-reference.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_logit_is_pytorchs),
        cmocka_unit_test(the_losses_of_rows_are_pytorchs),
        cmocka_unit_test(every_gradient_is_pytorchs),
        cmocka_unit_test(twenty_steps_are_pytorchs),
    };
    return cmocka_run_group_tests(tests, load_reference, NULL);
}
