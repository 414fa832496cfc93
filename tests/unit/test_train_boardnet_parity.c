/*
 * test_train_boardnet_parity.c - two small board nets, plain and separable, against PyTorch: losses, every
 * gradient, running statistics, steps of AdamW, and what the net says when it plays, norms folded in.
 *
 * tools/boardnet-reference made the numbers, in f64, and has the same formula for weights and data. How far
 * ours may be apart is said as parity.h has it; tests/python/test_parity.py reads the table from here and
 * holds PyTorch's own f32 to it.
 */
#include "lent.h"
#include "parity.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/threads.h"
#include "train/boardnet.h"

/* 2^-24 is 6e-8. Losses and statistics have a few such roundings; gradients go through seven norms, which
 * subtract what is nearly equal, and have a dozen or two; steps, which are clipped, make fewer of them.
 * (Seen, in this order, in the worst of three instruction sets: 5e-8, 1.5e-6, 1.4e-7, 6e-8,
 * 6e-7, 1.3e-7, 2.3e-7, 7e-7.) */
static const struct bounds {
    double losses, gradient, measured, step_loss, step_norm, weight, logits, values;
} bounds = {.losses = 2e-7,
            .gradient = 4e-6,
            .measured = 4e-7,
            .step_loss = 5e-7,
            .step_norm = 2e-6,
            .weight = 1e-6,
            .logits = 1e-6,
            .values = 3e-6};

enum { BATCH = 6, COLUMNS = 5, ROWS = 4, CELLS = COLUMNS * ROWS, PLANES = 5, STEPS = 5 };

static const struct net_case {
    const char *name;
    struct tide_boardnet_config config;
} cases[] = {{"plain",
              {.columns = COLUMNS,
               .rows = ROWS,
               .planes = PLANES,
               .moves = 20,
               .blocks = 2,
               .channels = 12,
               .policy_channels = 3,
               .value_channels = 2,
               .value_hidden = 7}},
             {"separable",
              {.columns = COLUMNS,
               .rows = ROWS,
               .planes = PLANES,
               .moves = 5,
               .blocks = 2,
               .channels = 32,
               .separable = true,
               .policy_channels = 4,
               .value_channels = 3,
               .value_hidden = 9}}};

enum { CASES = sizeof cases / sizeof *cases };

struct model {
    const struct net_case *of;
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_boardnet net;
    struct tide_boardnet_player player;
    struct tide_machine *machine;
};

/* From 0 to 1. */
static float part_of(const char *name, int64_t index)
{
    return (float)(hash(name, index) >> 19) / 8192;
}

static float number_of(const char *name, int64_t index)
{
    float around = (strstr(name, "norm") && strstr(name, ".weight")) || strstr(name, "running_var") ? 1 : 0;
    return around + (part_of(name, index) - 0.5F) / 2;
}

static void fill(const struct model *m)
{
    int64_t moves = m->of->config.moves;
    float *planes[] = {tide_machine_input(m->machine, m->net.planes),
                       tide_machine_input(m->machine, m->player.planes)};
    float *policy = tide_machine_input(m->machine, m->net.policy),
          *value = tide_machine_input(m->machine, m->net.value);
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        float *weight = lent(m->machine, i);
        for (int64_t k = 0; k < tide_tensor_count(t); k++)
            weight[k] = number_of(t->name, k);
    }
    for (int64_t i = 0; i < BATCH * CELLS * PLANES; i++)
        planes[0][i] = planes[1][i] = hash("planes", i) % 3 == 0;
    for (int64_t i = 0; i < BATCH; i++) {
        double sum = 0;
        for (int64_t j = 0; j < moves; j++)
            sum += (double)part_of("policy", i * moves + j);
        for (int64_t j = 0; j < moves; j++)
            policy[i * moves + j] = (float)(part_of("policy", i * moves + j) / sum);
        value[i] = 2 * part_of("value", i) - 1;
    }
}

static struct model set_up(const struct net_case *of, struct tide_choices choices)
{
    struct tide_err err;
    struct tide_plan plan;
    struct model m = {.of = of, .graph = tide_graph_new(TIDE_F32), .device = &tide_cpu_device};
    assert_non_null(m.graph);
    tide_threads_set(1);
    ok(tide_boardnet_build(m.graph, &of->config, BATCH, 0.5F, &m.net, &err), &err);
    ok(tide_boardnet_build_player(m.graph, &of->config, "", BATCH, &m.player, &err), &err);
    ok(tide_plan_make(m.graph, m.device, &choices, &plan, &err), &err);
    ok(tide_machine_new(m.graph, m.device, &plan, &m.machine, &err), &err);
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

static const char *called(const struct model *m, const char *name)
{
    static char full[2 * TIDE_TENSOR_NAME];
    snprintf(full, sizeof full, "%s/%s", m->of->name, name);
    return full;
}

/* Of all parameters, their gradients or their numbers; or of what is measured. */
static void compare_all(const struct model *m, const char *what, bool are_measured, bool are_gradients,
                        double bound)
{
    int count = 0;
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role != TIDE_PARAMETER || t->measured != are_measured)
            continue;
        compare_tensor(what, called(m, t->name),
                       are_gradients ? lent_gradient(m->machine, i) : lent(m->machine, i),
                       tide_tensor_count(t), bound);
        count++;
    }
    assert_true(count > 10);
}

static float result(const struct model *m, int tensor)
{
    return *(const float *)tide_machine_result(m->machine, m->net.program, tensor);
}

static void one_batch_is_pytorchs(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct model m = set_up(&cases[i], (struct tide_choices){0});
        float sum = tide_machine_pass(m.machine, 0, &rule);
        float losses[2] = {result(&m, m.net.policy_loss), result(&m, m.net.value_loss)};
        assert_true(sum == losses[0] + losses[1]);
        compare_tensor("losses", m.of->name, losses, 2, bounds.losses);
        compare_all(&m, "gradient", false, true, bounds.gradient);
        compare_all(&m, "measured", true, false, bounds.measured);
        tear_down(&m);
    }
}

/* With everything recomputed and updates on the way, which changes no bit. */
static void steps_and_what_it_plays_then_are_pytorchs(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct model m =
            set_up(&cases[i], (struct tide_choices){.recompute = 2, .fused = true, .clips = true});
        struct tide_update_rule now = rule;
        for (int step = 1; step <= STEPS; step++) {
            char name[4];
            snprintf(name, sizeof name, "%d", step);
            const double *theirs = numbers_of("step", called(&m, name));
            now.step.step = step;
            double loss = tide_machine_pass(m.machine, 0, &now), norm = tide_machine_update(m.machine, &now);
            near_by("step", called(&m, name), loss, theirs[0], theirs[0], bounds.step_loss);
            near_by("step", called(&m, name), norm, theirs[1], theirs[1], bounds.step_norm);
        }
        compare_all(&m, "weight", false, false, bounds.weight);
        tide_machine_run(m.machine, m.player.program);
        compare_tensor("logits", m.of->name,
                       tide_machine_result(m.machine, m.player.program, m.player.logits),
                       BATCH * m.of->config.moves, bounds.logits);
        compare_tensor("values", m.of->name,
                       tide_machine_result(m.machine, m.player.program, m.player.values), BATCH,
                       bounds.values);
        tear_down(&m);
    }
}

static int load_reference(void **state)
{
    (void)state;
    return load("tests/fixtures/boardnet-reference.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_batch_is_pytorchs),
        cmocka_unit_test(steps_and_what_it_plays_then_are_pytorchs),
    };
    return cmocka_run_group_tests(tests, load_reference, NULL);
}
