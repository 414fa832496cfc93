/*
 * test_train_policy_parity.c - GRPO of a small GPT-2 against PyTorch and TRL: the loss and every gradient of
 * two inner epochs, for each kind of loss, and what is reported; and the programs of a policy against each
 * other.
 *
 * tools/grpo-reference made the numbers, in f64, and has the same completions and rewards;
 * tests/python/test_parity.py holds them to what TRL's own trainer says. Losses are measured by the sum of
 * their tokens' losses without signs, for on policy most of them cancels.
 */
#include "lent.h"
#include "parity.h"
#include "rt/cpu/cpu_device.h"
#include "rt/machine.h"
#include "rt/cpu/threads.h"

/* 2^-24 is 6e-8. A second epoch comes after a step that moves log-probabilities by more than 1. (Seen, in
 * this order: 1.2e-7, 9.2e-7, 4.3e-7; PyTorch in f32: 9.9e-8, 1.6e-6, 1.6e-6; TRL: 1.5e-7, 1.1e-6, 1.2e-6.)
 */
static const struct {
    double loss, gradient, report;
} bounds = {.loss = 1e-6, .gradient = 3e-6, .report = 3e-6};

enum { GROUPS = 3, GROUP = 4, SEQUENCES = GROUPS * GROUP, EPOCHS = 2 };
enum {
    PROMPT = 5,
    NEW_TOKENS = 9,
    ROWS = PROMPT + NEW_TOKENS - 1,
    MICRO_BATCH = 4,
    PARTS = SEQUENCES / MICRO_BATCH
};

static const int64_t lengths[SEQUENCES] = {9, 4, 1, 7, 3, 9, 2, 8, 5, 6, 9, 1};
static const double rewards[SEQUENCES] = {1, 0, .5, .25, .3, .3, .3, .3, -1, 2, .75, .125};

static const struct tide_case {
    const char *name;
    struct tide_policy_rule rule;
    float rate;
} cases[] = {
    {"dapo",
     {.kind = TIDE_POLICY_DAPO,
      .temperature = 1,
      .epsilon = .2,
      .epsilon_high = .2,
      .scale_rewards = TIDE_SCALE_GROUP},
     .3F},
    {"grpo",
     {.kind = TIDE_POLICY_GRPO,
      .temperature = .8,
      .epsilon = .2,
      .epsilon_high = .28,
      .beta = .04,
      .scale_rewards = TIDE_SCALE_GROUP},
     .3F},
    {"bnpo",
     {.kind = TIDE_POLICY_BNPO,
      .temperature = 1,
      .epsilon = .1,
      .epsilon_high = .1,
      .beta = .25,
      .plain_kl = true,
      .scale_rewards = TIDE_SCALE_BATCH},
     .3F},
    {"dr_grpo",
     {.kind = TIDE_POLICY_DR_GRPO,
      .temperature = 1.3,
      .epsilon = .15,
      .epsilon_high = .3,
      .beta = .02,
      .scale_rewards = TIDE_SCALE_NONE},
     1},
};

struct model {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_gpt_policy policy;
    struct tide_plan plan;
    struct tide_machine *machine;
    struct tide_policy_batch batch;
};

/* Of a reference that is a model of its own: the policy's weights, each moved by a little. */
static float initial(const char *name, int64_t index)
{
    size_t prefix = strlen(TIDE_GPT_REFERENCE);
    if (strncmp(name, TIDE_GPT_REFERENCE, prefix) != 0)
        return weight_of(name, index);
    return weight_of(name + prefix, index) + ((float)(hash(name, index) >> 19) / 8192 - 0.5F) / 32;
}

static int give_reference(void *context, int tensor, int64_t first, int64_t rows, void *to)
{
    const struct tide_tensor *t = &((const struct model *)context)->graph->tensors[tensor];
    int64_t columns = tide_tensor_columns(t);
    for (int64_t i = 0; i < rows * columns; i++)
        ((float *)to)[i] = initial(t->name, first * columns + i);
    return 0;
}

static void set_up(struct model *m, const struct tide_gpt_config *config, const struct tide_policy_rule *rule,
                   int64_t sequences, struct tide_choices choices)
{
    struct tide_err err;
    *m = (struct model){.graph = tide_graph_new(TIDE_F32), .device = &tide_cpu_device};
    assert_non_null(m->graph);
    tide_threads_set(1);
    m->graph->optimizer = &tide_optimizer_sgd;
    ok(tide_gpt_build_policy(m->graph, config, sequences, ROWS, rule, &m->policy, &err), &err);
    ok(tide_plan_make(m->graph, m->device, &choices, &m->plan, &err), &err);
    ok(tide_machine_new(m->graph, m->device, &m->plan, &m->machine, &err), &err);
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        float *weight = t->role == TIDE_PARAMETER ? lent(m->machine, i) : NULL;
        for (int64_t k = 0; weight && k < tide_tensor_count(t); k++)
            weight[k] = initial(t->name, k);
    }
    tide_machine_source(m->machine, give_reference, m);
    m->batch = tide_gpt_policy_batch(&m->policy, m->machine);
}

static void tear_down(struct model *m)
{
    tide_machine_free(m->machine);
    tide_graph_free(m->graph);
}

struct generation {
    struct tide_policy_rule rule;
    struct tide_policy_sequence sequences[SEQUENCES];
    int32_t tokens[SEQUENCES][PROMPT + NEW_TOKENS];
    float old_log[SEQUENCES][NEW_TOKENS], reference_log[SEQUENCES][NEW_TOKENS];
    struct tide_policy_rewards rewards;
};

static void generate(struct generation *g, const struct tide_policy_rule *rule, int64_t micro_batch)
{
    float advantages[SEQUENCES];
    *g = (struct generation){.rule = *rule};
    g->rule.group = GROUP;
    g->rule.new_tokens = NEW_TOKENS;
    tide_policy_advantages(&g->rule, rewards, GROUPS, advantages, &g->rewards);
    for (int i = 0; i < SEQUENCES; i++) {
        char prompt[24], completion[24];
        snprintf(prompt, sizeof prompt, "prompt %d", i / GROUP);
        snprintf(completion, sizeof completion, "completion %d", i);
        for (int t = 0; t < PROMPT; t++)
            g->tokens[i][t] = (int32_t)(hash(prompt, t) % VOCABULARY);
        for (int t = 0; t < lengths[i]; t++)
            g->tokens[i][PROMPT + t] = (int32_t)(hash(completion, t) % VOCABULARY);
        g->sequences[i] = (struct tide_policy_sequence){.tokens = g->tokens[i],
                                                        .prompt = PROMPT,
                                                        .completion = lengths[i],
                                                        .advantage = advantages[i],
                                                        .old_log = g->old_log[i],
                                                        .reference_log = g->reference_log[i]};
    }
    tide_policy_weigh(&g->rule, g->sequences, SEQUENCES, micro_batch);
}

static const float *run(struct model *m, int program, int result)
{
    tide_machine_run(m->machine, program);
    return tide_machine_result(m->machine, program, result);
}

/* With the reference's log-probabilities, if the rule asks for any. */
static void ask_reference(struct model *m, struct generation *g)
{
    int64_t at_once = m->policy.sequences;
    for (int64_t first = 0; first < SEQUENCES && g->rule.beta != 0; first += at_once) {
        tide_policy_fill(&m->batch, &g->rule, g->sequences + first, at_once, 0);
        tide_policy_take(g->sequences + first, at_once, run(m, m->policy.reference, m->policy.reference_log),
                         true);
    }
}

/* Passes of an epoch; the loss, and sums of each micro-batch. */
static double epoch_of(struct model *m, struct generation *g, int64_t epoch, struct tide_policy_sums *sums)
{
    int64_t at_once = m->policy.sequences, parts = SEQUENCES / at_once;
    struct tide_update_rule rule = {.micro_batches = parts};
    double loss = 0;
    for (int64_t i = 0; i < parts; i++) {
        const struct tide_policy_sequence *first = g->sequences + i * at_once;
        tide_policy_fill(&m->batch, &g->rule, first, at_once, epoch);
        loss += tide_machine_pass(m->machine, i, &rule) / (double)parts;
        const float *said = tide_machine_result(m->machine, m->policy.gpt.train, m->policy.log_probabilities);
        sums[i] = (struct tide_policy_sums){0};
        tide_policy_count(&m->batch, said, &sums[i]);
        if (epoch == 0)
            tide_policy_take(first, at_once, said, false);
    }
    return loss;
}

/* ---- against PyTorch */

static void compare_report(const char *name, const struct generation *g, const struct tide_policy_sums *sums)
{
    double ours[5] = {[3] = g->rewards.mean, [4] = g->rewards.spread};
    for (int i = 0; i < PARTS; i++) {
        double share = 1.0 / (double)sums[i].tokens / PARTS;
        ours[0] += sums[i].kl * share;
        ours[1] += sums[i].clipped_low * share;
        ours[2] += sums[i].clipped_high * share;
    }
    const double *theirs = numbers_of("report", name);
    for (int i = 0; i < 5; i++)
        near_by("report", name, ours[i], theirs[i], theirs[i], bounds.report);
}

static void compare_gradients(struct model *m, const char *of)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        char name[2 * TIDE_TENSOR_NAME];
        if (!tide_tensor_trains(t))
            continue;
        snprintf(name, sizeof name, "%s/%s", of, t->name);
        compare_tensor("gradient", name, lent_gradient(m->machine, i), tide_tensor_count(t), bounds.gradient);
    }
}

static void compare_case(const struct tide_case *c)
{
    struct model m;
    struct generation g;
    struct tide_update_rule update = {.step = {.rate = c->rate, .step = 1}, .micro_batches = PARTS};
    set_up(&m, &parity_config, &c->rule, MICRO_BATCH, (struct tide_choices){0});
    generate(&g, &c->rule, MICRO_BATCH);
    ask_reference(&m, &g);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        struct tide_policy_sums sums[PARTS];
        char name[32];
        snprintf(name, sizeof name, "%s/%d", c->name, epoch);
        const double *theirs = numbers_of("loss", name);
        near_by("loss", name, epoch_of(&m, &g, epoch, sums), theirs[0], theirs[1], bounds.loss);
        compare_report(name, &g, sums);
        compare_gradients(&m, name);
        tide_machine_update(m.machine, &update);
    }
    tear_down(&m);
}

static void losses_and_every_gradient_of_two_epochs_are_trls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        compare_case(&cases[i]);
}

/* ---- against each other */

/* Rows of all sequences, which follow each other. */
static int64_t rows_there(void)
{
    int64_t rows = 0;
    for (int i = 0; i < SEQUENCES; i++)
        rows += PROMPT + lengths[i] - 1;
    return rows;
}

/* What is computed for a row does not depend on what is recomputed, or done at once. */
static void a_score_is_what_the_pass_says_in_every_plan(void **state)
{
    (void)state;
    static const struct tide_choices tried[] = {
        {0}, {.recompute = 2}, {.recompute = 3, .recompute_logits = TIDE_QUARTERS}};
    float first[SEQUENCES * ROWS];
    size_t bytes = (size_t)rows_there() * sizeof *first;
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        struct model m;
        struct generation g;
        struct tide_update_rule rule = {.micro_batches = 1};
        set_up(&m, &parity_config, &cases[1].rule, SEQUENCES, tried[i]);
        generate(&g, &cases[1].rule, SEQUENCES);
        tide_policy_fill(&m.batch, &g.rule, g.sequences, SEQUENCES, 0);
        const float *scored = run(&m, m.policy.gpt.evaluate, m.policy.log_probabilities);
        if (i == 0)
            memcpy(first, scored, bytes);
        assert_memory_equal(scored, first, bytes);
        tide_machine_pass(m.machine, 0, &rule);
        assert_memory_equal(tide_machine_result(m.machine, m.policy.gpt.train, m.policy.log_probabilities),
                            first, bytes);
        tear_down(&m);
    }
}

/* Adapters begin with B = 0, where they add nothing; here nothing is 0. */
static void the_reference_of_adapters_is_the_model_without_them(void **state)
{
    (void)state;
    struct tide_gpt_config adapted = parity_config;
    struct model with, without;
    struct generation g;
    adapted.adapter_rank = 2;
    adapted.adapter_scale = 2;
    adapted.adapters = TIDE_ADAPT_ALL;
    set_up(&with, &adapted, &cases[1].rule, SEQUENCES, (struct tide_choices){0});
    set_up(&without, &parity_config, &cases[1].rule, SEQUENCES, (struct tide_choices){0});
    generate(&g, &cases[1].rule, SEQUENCES);
    tide_policy_fill(&with.batch, &g.rule, g.sequences, SEQUENCES, 0);
    tide_policy_fill(&without.batch, &g.rule, g.sequences, SEQUENCES, 0);
    float reference[SEQUENCES * ROWS];
    size_t bytes = (size_t)rows_there() * sizeof *reference;
    memcpy(reference, run(&with, with.policy.reference, with.policy.reference_log), bytes);
    assert_memory_equal(run(&without, without.policy.gpt.evaluate, without.policy.log_probabilities),
                        reference, bytes);
    assert_memory_not_equal(run(&with, with.policy.gpt.evaluate, with.policy.log_probabilities), reference,
                            bytes);
    for (int i = 0; i < with.graph->tensor_count; i++)
        assert_null(strstr(with.graph->tensors[i].name, TIDE_GPT_REFERENCE)); /* no second model */
    tear_down(&with);
    tear_down(&without);
}

/* Without beta there is nothing to ask; with it, the reference is streamed and has a window at the most. */
static void without_beta_there_is_no_reference(void **state)
{
    (void)state;
    struct model m, held;
    set_up(&m, &parity_config, &cases[0].rule, MICRO_BATCH, (struct tide_choices){0});
    set_up(&held, &parity_config, &cases[1].rule, MICRO_BATCH, (struct tide_choices){0});
    assert_int_equal(m.policy.reference, -1);
    assert_true(held.policy.reference >= 0);
    assert_int_equal(held.graph->parameters, m.graph->parameters);
    for (int i = 0; i < TIDE_PASSES; i++)
        assert_int_equal(held.plan.bytes[i], m.plan.bytes[i]);
    tear_down(&m);
    tear_down(&held);
}

/* All at once, or one after another: the same gradients but for rounding, but where the kind says so. */
static void micro_batches_change_no_gradient(void **state)
{
    (void)state;
    struct model whole, parts;
    struct generation g;
    struct tide_policy_sums sums[SEQUENCES];
    set_up(&whole, &parity_config, &cases[3].rule, SEQUENCES, (struct tide_choices){0});
    set_up(&parts, &parity_config, &cases[3].rule, 1, (struct tide_choices){0});
    generate(&g, &cases[3].rule, SEQUENCES);
    ask_reference(&whole, &g);
    double loss = epoch_of(&whole, &g, 0, sums);
    generate(&g, &cases[3].rule, 1);
    ask_reference(&parts, &g);
    near_by("loss", "in parts", epoch_of(&parts, &g, 0, sums), loss, .25, bounds.loss);
    for (int i = 0; i < whole.graph->tensor_count; i++) {
        const struct tide_tensor *t = &whole.graph->tensors[i];
        if (!tide_tensor_trains(t))
            continue;
        const float *a = lent_gradient(whole.machine, i), *b = lent_gradient(parts.machine, i);
        double squares = 0;
        for (int64_t k = 0; k < tide_tensor_count(t); k++)
            squares += (double)a[k] * a[k];
        for (int64_t k = 0; k < tide_tensor_count(t); k++)
            near_by("gradient", t->name, b[k], a[k], sqrt(squares), bounds.gradient);
    }
    tear_down(&whole);
    tear_down(&parts);
}

/* The most rows that a micro-batch may have: a longer one is planned, and no bit of a row changes, nor does
 * a row that nobody has join a gradient. What was in the arena before does not matter. */
static void room_for_longer_sequences_changes_no_bit(void **state)
{
    (void)state;
    enum { ROOM = 5 };
    struct model whole, roomy;
    struct generation g;
    struct tide_update_rule rule = {.micro_batches = 1};
    set_up(&whole, &parity_config, &cases[1].rule, SEQUENCES, (struct tide_choices){0});
    set_up(&roomy, &parity_config, &cases[1].rule, ROOM * SEQUENCES, (struct tide_choices){0});
    generate(&g, &cases[1].rule, SEQUENCES);
    struct tide_policy_sequence full[ROOM * SEQUENCES];
    for (int i = 0; i < ROOM * SEQUENCES; i++)
        full[i] = g.sequences[0]; /* the longest there may be: every row is one */
    tide_policy_fill(&roomy.batch, &g.rule, full, ROOM * SEQUENCES, 0);
    tide_machine_pass(roomy.machine, 0, &rule);
    tide_policy_fill(&whole.batch, &g.rule, g.sequences, SEQUENCES, 0);
    tide_policy_fill(&roomy.batch, &g.rule, g.sequences, SEQUENCES, 0);
    float loss = tide_machine_pass(whole.machine, 0, &rule);
    assert_true(tide_machine_pass(roomy.machine, 0, &rule) == loss);
    assert_memory_equal(
        tide_machine_result(roomy.machine, roomy.policy.gpt.train, roomy.policy.log_probabilities),
        tide_machine_result(whole.machine, whole.policy.gpt.train, whole.policy.log_probabilities),
        (size_t)rows_there() * sizeof(float));
    for (int i = 0; i < whole.graph->tensor_count; i++) {
        const struct tide_tensor *t = &whole.graph->tensors[i];
        if (tide_tensor_trains(t))
            assert_memory_equal(lent_gradient(roomy.machine, i), lent_gradient(whole.machine, i), t->bytes);
    }
    tear_down(&whole);
    tear_down(&roomy);
}

static int load_reference(void **state)
{
    (void)state;
    return load("tests/fixtures/grpo-reference.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_every_gradient_of_two_epochs_are_trls),
        cmocka_unit_test(a_score_is_what_the_pass_says_in_every_plan),
        cmocka_unit_test(the_reference_of_adapters_is_the_model_without_them),
        cmocka_unit_test(without_beta_there_is_no_reference),
        cmocka_unit_test(micro_batches_change_no_gradient),
        cmocka_unit_test(room_for_longer_sequences_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, load_reference, NULL);
}
