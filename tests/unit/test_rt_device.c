/*
 * test_rt_device.c - training, evaluation, sampling and checkpoints on a device whose memory nobody else can
 * look into, with the bits of processors.
 */
#include "checkpoint_fixture.h"
#include "guarded_device.h"
#include "rt/cpu/threads.h"
#include "train/initial.h"
#include "train/lm.h"
#include "train/sample.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>

enum { BATCH = 3, SEQUENCE = 8, STEPS = 3, SAID = 5, SLOTS = 2 };

/* How a model is trained. */
struct way {
    enum tide_dtype compute, stored;
    const struct tide_optimizer *optimizer;
    struct tide_choices choices;
    int64_t micro_batches;
};

struct model {
    const struct tide_device *device;
    struct tide_graph *graph;
    struct tide_gpt gpt;
    struct tide_gpt_decoder decoder;
    struct tide_machine *machine;
};

static struct model new_model(const struct tide_device *device, const struct way *way)
{
    struct tide_err err;
    struct tide_plan plan;
    struct model m = {.device = device, .graph = tide_graph_new(way->compute)};
    assert_non_null(m.graph);
    m.graph->optimizer = way->optimizer;
    m.graph->stored = way->stored;
    ok(tide_gpt_build(m.graph, &config, BATCH, SEQUENCE, &m.gpt, &err), &err);
    ok(tide_gpt_build_decoder(m.graph, &config, SLOTS, SEQUENCE, &m.decoder, &err), &err);
    ok(tide_plan_make(m.graph, device, &way->choices, &plan, &err), &err);
    ok(tide_machine_new(m.graph, device, &plan, &m.machine, &err), &err);
    ok(tide_initial_weights(m.graph, m.machine, 5, &err), &err);
    return m;
}

static void free_model(struct model *m)
{
    tide_machine_free(m->machine);
    tide_graph_free(m->graph);
}

/* ---- what comes of it */

struct outcome {
    float losses[STEPS], evaluated;
    double norms[STEPS], squares;
    int32_t said[SAID][SLOTS];
    char *state; /* all parameters with what is saved of their optimizer */
    size_t bytes;
};

static void add_bytes(const struct model *m, struct outcome *to, size_t place, size_t bytes)
{
    to->state = realloc(to->state, to->bytes + bytes);
    assert_non_null(to->state);
    tide_machine_read(m->machine, place, to->state + to->bytes, bytes);
    to->bytes += bytes;
}

static void read_state(const struct model *m, struct outcome *to)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        struct tide_state_part parts[TIDE_STATE_PARTS];
        if (t->role != TIDE_PARAMETER)
            continue;
        int count =
            tide_optimizer_parts(m->graph->optimizer, tide_tensor_rows(t), tide_tensor_columns(t), parts);
        add_bytes(m, to, tide_machine_place(m->machine, i), t->bytes);
        to->squares += tide_machine_squares(m->machine, i);
        for (int k = 0; k < count && parts[k].name; k++)
            add_bytes(m, to, tide_machine_state(m->machine, i, k),
                      (size_t)parts[k].count * tide_dtype_bytes(parts[k].dtype));
    }
}

static void fill_batch(const struct model *m, int64_t number)
{
    struct tide_err err;
    ok(tide_data_batch(w.data, (uint64_t)number, false, BATCH, tide_machine_input(m->machine, m->gpt.tokens),
                       tide_machine_input(m->machine, m->gpt.targets), &err),
       &err);
}

static void train(const struct model *m, const struct way *way, struct outcome *to)
{
    struct tide_update_rule rule = {
        .step = {.rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .decay = 0.1F, .seed = 3},
        .clip = way->choices.clips ? 0.5F : 0,
        .micro_batches = way->micro_batches};
    for (int step = 0; step < STEPS; step++) {
        rule.step.step = step + 1;
        for (int64_t i = 0; i < rule.micro_batches; i++) {
            fill_batch(m, step * rule.micro_batches + i);
            to->losses[step] = tide_machine_pass(m->machine, i, &rule);
        }
        to->norms[step] = tide_machine_update(m->machine, &rule);
    }
}

/* Two sequences that share their beginning, one token of each at a time. */
static void sample(const struct model *m, struct outcome *to)
{
    const int32_t prompt[] = {1, 2, 3};
    int32_t tokens[SLOTS] = {4, 5}, positions[SLOTS] = {3, 3};
    tide_decoder_read(&m->decoder, m->machine, 0, prompt, 3);
    tide_decoder_copy(&m->decoder, m->machine, 1, 0, 3);
    for (int i = 0; i < SAID; i++) {
        struct tide_sample_rule rule = {.temperature = 1, .top_p = 1};
        const float *logits = tide_decoder_next(&m->decoder, m->machine, tokens, positions);
        for (int slot = 0; slot < SLOTS; slot++, positions[slot - 1]++)
            to->said[i][slot] = tokens[slot] =
                (int32_t)tide_sample_choose(logits + slot * config.vocabulary, config.vocabulary, &rule,
                                            (double)(3 * i + slot) / (3 * SAID), NULL);
    }
}

/* Trains, evaluates, samples, saves, and loads into a model that is new. */
static struct outcome live(const struct tide_device *device, const struct way *way)
{
    struct tide_err err;
    struct outcome all = {0}, loaded = {0};
    struct model m = new_model(device, way), other = new_model(device, way);
    struct tide_train_settings how = {.steps = STEPS,
                                      .schedule = "constant",
                                      .dtype = way->compute == TIDE_BF16 ? "bf16" : "f32",
                                      .stored = way->stored == TIDE_BF16 ? "bf16" : "f32",
                                      .optimizer = way->optimizer->name};
    struct tide_lm_settings sizes = {.batch = BATCH, .sequence = SEQUENCE, .accumulate = way->micro_batches};
    struct tide_checkpoint_state state = {.task = "lm", .step = STEPS, .train = &how, .own = &sizes};
    struct tide_checkpoint_dir dir = {.path = w.dir, .keep = 1, .fd = -1};
    char path[PATH_MAX];
    train(&m, way, &all);
    fill_batch(&m, 0);
    tide_machine_run(m.machine, m.gpt.evaluate);
    all.evaluated = *(const float *)tide_machine_result(m.machine, m.gpt.evaluate, m.gpt.loss);
    sample(&m, &all);
    read_state(&m, &all);
    ok(tide_checkpoint_save(&dir, m.graph, m.machine, &state, tide_language_write, &w.language, &err), &err);
    tide_checkpoint_leave(&dir);
    ok(tide_checkpoint_find(w.dir, path, sizeof path, &err), &err);
    ok(tide_checkpoint_load(path, other.graph, other.machine, true, &err), &err);
    read_state(&other, &loaded);
    assert_int_equal(loaded.bytes, all.bytes);
    assert_memory_equal(loaded.state, all.state, all.bytes);
    free(loaded.state);
    free_model(&m);
    free_model(&other);
    return all;
}

static void compare(const struct way *way)
{
    struct outcome a = live(&tide_cpu_device, way), b = live(&guarded_device, way);
    assert_memory_equal(a.losses, b.losses, sizeof a.losses);
    assert_memory_equal(a.norms, b.norms, sizeof a.norms);
    assert_memory_equal(a.said, b.said, sizeof a.said);
    assert_true(a.evaluated == b.evaluated && a.squares == b.squares && isfinite(a.squares));
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.state, b.state, a.bytes);
    free(a.state);
    free(b.state);
}

/* ---- tests */

static void nobody_else_looks_into_the_memory_of_a_device(void **state)
{
    (void)state;
    const struct way ways[] = {
        {.optimizer = &tide_optimizer_adamw, .choices = {.clips = true}, .micro_batches = 2},
        {.optimizer = &tide_optimizer_adamw,
         .choices = {.recompute = 1, .fused = true, .clips = true},
         .micro_batches = 1},
        {.compute = TIDE_BF16,
         .stored = TIDE_BF16,
         .optimizer = &tide_optimizer_adamw8,
         .choices = {.fused = true},
         .micro_batches = 1},
        {.stored = TIDE_BF16, .optimizer = &tide_optimizer_adafactor, .micro_batches = 1},
    };
    for (int threads = 1; threads <= 2; threads++) {
        tide_threads_set(threads);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            compare(&ways[i]);
    }
}

/* Else the other test would show nothing. */
static void whoever_does_is_ended(void **state)
{
    (void)state;
    const struct way way = {.optimizer = &tide_optimizer_adamw, .micro_batches = 1};
    struct model m = new_model(&guarded_device, &way);
    size_t bytes[TIDE_SECTIONS] = {[TIDE_TRAINED] = 64};
    struct tide_arena *arena;
    struct tide_err err;
    ok(m.device->take(m.device, m.graph, bytes, &arena, &err), &err);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile char *)arena->start);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    m.device->give_back(arena);
    assert_null(tide_machine_lend(m.machine, tide_machine_place(m.machine, m.gpt.token_table)));
    free_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_else_looks_into_the_memory_of_a_device, set_up, tear_down),
        cmocka_unit_test(whoever_does_is_ended),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
