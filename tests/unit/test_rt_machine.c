/*
 * test_rt_machine.c - a small GPT under every plan: the same bits, exactly the planned bytes.
 */
#include "rt/machine.h"
#include "rt/threads.h"
#include "train/gpt.h"

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

enum { BATCH = 3, SEQUENCE = 21, BLOCKS = 3, STEPS = 4 };

static const struct tide_gpt_config config = {.words = 31,
                                              .positions = 40,
                                              .channels = 24,
                                              .heads = 3,
                                              .blocks = BLOCKS,
                                              .hidden = 50,
                                              .epsilon = 1e-5F};

struct model {
    struct tide_graph *graph;
    struct tide_matmuls *matmuls;
    struct tide_gpt gpt;
};

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

static struct model new_model(enum tide_dtype compute, bool plain)
{
    struct tide_err err;
    struct model m = {.graph = tide_graph_new(compute)};
    assert_non_null(m.graph);
    ok(tide_gpt_build(m.graph, &config, BATCH, SEQUENCE, &m.gpt, &err), &err);
    ok(tide_matmuls_new(plain, &m.matmuls, &err), &err);
    return m;
}

static void free_model(struct model *m)
{
    tide_matmuls_free(m->matmuls);
    tide_graph_free(m->graph);
}

static struct tide_machine *new_machine(const struct model *m, const struct tide_plan *plan)
{
    struct tide_err err;
    struct tide_machine *machine;
    ok(tide_machine_new(m->graph, m->matmuls, plan, true, &machine, &err), &err);
    uint64_t seed = 7;
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        float *weight = tide_machine_data(machine, i);
        for (int64_t k = 0; k < tide_tensor_count(t); k++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            weight[k] =
                ((float)(seed >> 40) / 8388608.0F - 1.0F) * 0.2F + (strstr(t->name, "ln_") ? 1.0F : 0);
        }
    }
    int32_t *tokens = tide_machine_data(machine, m->gpt.tokens),
            *targets = tide_machine_data(machine, m->gpt.targets);
    for (int i = 0; i < BATCH * SEQUENCE; i++) {
        tokens[i] = i * i % 31;
        targets[i] = i % 7 ? (i + 1) * (i + 1) % 31 : -1;
    }
    return machine;
}

static struct tide_update_rule rule_of(float clip)
{
    return (struct tide_update_rule){
        .adamw = {.rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F},
        .decay = 0.1F,
        .clip = clip,
        .micro_batches = 1};
}

/* All weights after a few steps, as one block. Caller frees. */
static char *train(const struct model *m, const struct tide_plan *plan, float clip, float *ret_loss)
{
    struct tide_machine *machine = new_machine(m, plan);
    struct tide_update_rule rule = rule_of(clip);
    for (int step = 1; step <= STEPS; step++) {
        rule.adamw.step = step;
        *ret_loss = tide_machine_pass(machine, 0, &rule);
        tide_machine_update(machine, &rule);
    }
    assert_int_equal(tide_machine_high_bytes(machine), plan->total);
    char *weights = malloc(plan->weights);
    assert_non_null(weights);
    memcpy(weights, tide_machine_data(machine, m->gpt.words), plan->weights);
    tide_machine_free(machine);
    return weights;
}

static void every_plan_gives_the_same_bits(enum tide_dtype compute, bool plain, float clip)
{
    struct tide_err err;
    struct model m = new_model(compute, plain);
    char *first = NULL;
    for (int fused = 0; fused < 2; fused++)
        for (int again = 0; again <= BLOCKS; again++) {
            struct tide_choices choices = {.again = again, .fused = fused, .clips = clip > 0};
            struct tide_plan plan;
            float loss = NAN;
            ok(tide_plan_make(m.graph, m.matmuls, &choices, true, 0, &plan, &err), &err);
            char *weights = train(&m, &plan, clip, &loss);
            assert_true(loss < 3.6F);
            if (first)
                assert_memory_equal(first, weights, plan.weights);
            else
                first = memcpy(malloc(plan.weights), weights, plan.weights);
            free(weights);
        }
    free(first);
    free_model(&m);
}

static void recomputing_and_fusing_change_no_bit(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        tide_threads_set(threads);
        every_plan_gives_the_same_bits(TIDE_F32, false, 0.5F);
        every_plan_gives_the_same_bits(TIDE_F32, false, 0);
        every_plan_gives_the_same_bits(TIDE_BF16, false, 0.5F);
        every_plan_gives_the_same_bits(TIDE_F32, true, 0.5F);
    }
}

static void micro_batches_add_up_to_one_batch(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(TIDE_F32, false);
    struct tide_choices choices = {.clips = true};
    struct tide_plan plan;
    ok(tide_plan_make(m.graph, m.matmuls, &choices, true, 0, &plan, &err), &err);
    struct tide_machine *once = new_machine(&m, &plan), *twice = new_machine(&m, &plan);
    struct tide_update_rule rule = rule_of(1), half = rule;
    half.micro_batches = 2;
    tide_machine_pass(once, 0, &rule);
    tide_machine_pass(twice, 0, &half);
    tide_machine_pass(twice, 1, &half);
    for (int i = 0; i < m.graph->tensor_count; i++) {
        if (m.graph->tensors[i].role != TIDE_PARAMETER)
            continue;
        const float *a = tide_machine_gradient(once, i), *b = tide_machine_gradient(twice, i);
        for (int64_t k = 0; k < tide_tensor_count(&m.graph->tensors[i]); k++)
            assert_true(fabsf(a[k] - b[k]) <= 1e-6F + 1e-4F * fabsf(a[k]));
    }
    tide_machine_free(once);
    tide_machine_free(twice);
    free_model(&m);
}

static void every_parameter_gets_a_gradient(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(TIDE_F32, false);
    struct tide_choices choices = {0};
    struct tide_plan plan;
    ok(tide_plan_make(m.graph, m.matmuls, &choices, true, 0, &plan, &err), &err);
    struct tide_machine *machine = new_machine(&m, &plan);
    struct tide_update_rule rule = rule_of(0);
    tide_machine_pass(machine, 0, &rule);
    for (int i = 0; i < m.graph->tensor_count; i++) {
        if (m.graph->tensors[i].role != TIDE_PARAMETER)
            continue;
        const float *gradient = tide_machine_gradient(machine, i);
        int64_t count = tide_tensor_count(&m.graph->tensors[i]), moved = 0;
        for (int64_t k = 0; k < count; k++)
            moved += gradient[k] != 0;
        if (moved == 0)
            fail_msg("'%s' gets no gradient", m.graph->tensors[i].name);
    }
    tide_machine_free(machine);
    free_model(&m);
}

/* The slope of the loss along the gradient is its squared norm: the whole way back against one difference. */
static void the_gradient_is_the_slope_of_the_loss(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(TIDE_F32, false);
    struct tide_choices choices = {.again = 2};
    struct tide_plan plan;
    ok(tide_plan_make(m.graph, m.matmuls, &choices, true, 0, &plan, &err), &err);
    struct tide_machine *machine = new_machine(&m, &plan);
    struct tide_update_rule rule = rule_of(0);
    tide_machine_pass(machine, 0, &rule);
    double squares = 0, losses[2];
    for (int i = 0; i < m.graph->tensor_count; i++)
        if (m.graph->tensors[i].role == TIDE_PARAMETER)
            squares += tide_update_squares(tide_machine_gradient(machine, i),
                                           tide_tensor_count(&m.graph->tensors[i]));
    double step = 1e-2 / sqrt(squares);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < m.graph->tensor_count; i++) {
            if (m.graph->tensors[i].role != TIDE_PARAMETER)
                continue;
            float *weight = tide_machine_data(machine, i);
            const float *gradient = tide_machine_gradient(machine, i);
            for (int64_t k = 0; k < tide_tensor_count(&m.graph->tensors[i]); k++)
                weight[k] += (float)((side ? -2 : 1) * step) * gradient[k];
        }
        losses[side] = tide_machine_evaluate(machine);
    }
    double slope = (losses[0] - losses[1]) / (2 * step);
    if (!(fabs(slope / squares - 1) < 5e-3))
        fail_msg("the loss rises by %g along a gradient of %g", slope, squares);
    tide_machine_free(machine);
    free_model(&m);
}

static void layouts_overlap_nowhere(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(TIDE_BF16, false);
    for (int fused = 0; fused < 2; fused++)
        for (int again = 0; again <= BLOCKS; again++) {
            struct tide_choices choices = {.again = again, .fused = fused, .clips = true};
            struct tide_schedule schedule;
            struct tide_layout layout;
            ok(tide_schedule_train(m.graph, m.matmuls, &choices, &schedule, &err), &err);
            ok(tide_layout(&schedule, &layout, &err), &err);
            ok(tide_layout_check(&schedule, layout.bytes, &err), &err);
            assert_true(layout.lower_bound <= layout.bytes);
            assert_true((double)layout.bytes < 1.15 * (double)layout.lower_bound);
            tide_schedule_release(&schedule);
        }
    free_model(&m);
}

static void a_budget_is_kept_from_the_least_possible_upward(void **state)
{
    (void)state;
    struct tide_err err;
    struct model m = new_model(TIDE_F32, false);
    struct tide_plan all, least, plan;
    ok(tide_plan_choose(m.graph, m.matmuls, 0, 1, true, 0, &all, &least, &err), &err);
    assert_true(least.total < all.total);
    assert_int_equal(tide_plan_choose(m.graph, m.matmuls, least.total - 1, 1, true, 0, &plan, &least, &err),
                     -1);
    assert_non_null(strstr(err.text, "least possible"));
    double work = INFINITY;
    for (size_t budget = least.total; budget <= all.total + 4096; budget += (all.total - least.total) / 16) {
        ok(tide_plan_choose(m.graph, m.matmuls, budget, 1, true, 0, &plan, &least, &err), &err);
        assert_true(plan.total <= budget);
        assert_true(plan.work <= work); /* more room is never slower */
        work = plan.work;
        struct tide_machine *machine = new_machine(&m, &plan);
        assert_int_equal(tide_machine_high_bytes(machine), plan.total);
        tide_machine_free(machine);
    }
    free_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputing_and_fusing_change_no_bit),
        cmocka_unit_test(micro_batches_add_up_to_one_batch),
        cmocka_unit_test(every_parameter_gets_a_gradient),
        cmocka_unit_test(the_gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(layouts_overlap_nowhere),
        cmocka_unit_test(a_budget_is_kept_from_the_least_possible_upward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
