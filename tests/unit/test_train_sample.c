/*
 * test_train_sample.c - decoding against the whole pass.
 */
#include "lent.h"
#include "failing_malloc.h"
#include "rt/cpu/cpu_device.h"
#include "rt/op.h"
#include "rt/cpu/threads.h"
#include "base/random.h"
#include "train/sample.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCE = 37, VOCABULARY = 13 };

static const struct tide_gpt_config config = {.vocabulary = VOCABULARY,
                                              .positions = 41,
                                              .channels = 27,
                                              .heads = 3,
                                              .blocks = 3,
                                              .hidden = 50,
                                              .epsilon = 1e-5F};

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

/* A model and its decoder, with a program that gives the logits of all rows of the whole pass. */
struct model {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_gpt gpt;
    struct tide_gpt_decoder decoder;
    struct tide_plan plan;
    int whole, logits;
    struct tide_machine *machine;
    struct tide_sampler *sampler;
};

static void make_weights(struct model *m)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        float *weight = lent(m->machine, i);
        float least = strstr(t->name, "ln_") && strstr(t->name, "weight") ? 0.5F : -0.3F;
        for (int64_t k = 0; k < tide_tensor_count(t); k++)
            weight[k] = least + 0.6F * (float)tide_random_unit(5, (uint64_t)i, (uint64_t)k);
    }
}

/* A program with the nodes of the model but its loss, and logits at its end. */
static void add_whole_pass(struct model *m)
{
    struct tide_graph *g = m->graph;
    const struct tide_program *train = &g->programs[m->gpt.train];
    m->whole = tide_graph_program(g, "whole", false);
    int moved = g->tensor_count;
    int *same = malloc((size_t)moved * sizeof *same);
    assert_non_null(same);
    for (int i = 0; i < moved; i++)
        same[i] = i;
    for (int i = train->first; i < train->end - 1; i++) {
        struct tide_node node = g->nodes[i];
        for (int k = 0; k < node.in_count; k++)
            node.in[k] = same[node.in[k]];
        int out = tide_graph_append(g, &node);
        for (int k = 0; k < g->nodes[i].out_count; k++)
            same[g->nodes[i].out[k]] = out + k;
    }
    m->logits = tide_graph_result(
        g, tide_op_linear_transposed(g, same[g->nodes[train->end - 1].in[0]], m->gpt.token_table, -1, true));
    free(same);
}

static struct model model_of(const struct tide_gpt_config *shape, enum tide_dtype compute, int64_t window,
                             const struct tide_choices *choices)
{
    struct tide_err err;
    struct model m = {.graph = tide_graph_new(compute)};
    assert_non_null(m.graph);
    ok(tide_gpt_build(m.graph, shape, 1, SEQUENCE, &m.gpt, &err), &err);
    ok(tide_gpt_build_decoder(m.graph, shape, 1, window, &m.decoder, &err), &err);
    add_whole_pass(&m);
    m.device = &tide_cpu_device;
    ok(tide_plan_make(m.graph, m.device, choices, &m.plan, &err), &err);
    ok(tide_machine_new(m.graph, m.device, &m.plan, &m.machine, &err), &err);
    ok(tide_sampler_new(shape, &m.decoder, m.machine, &m.sampler, &err), &err);
    make_weights(&m);
    return m;
}

static struct model new_model(enum tide_dtype compute, int64_t window)
{
    struct tide_choices choices = {0};
    return model_of(&config, compute, window, &choices);
}

static void free_model(struct model *m)
{
    tide_sampler_free(m->sampler);
    tide_machine_free(m->machine);
    tide_graph_free(m->graph);
}

static int32_t token_at(int64_t i)
{
    return (int32_t)(i * i * 7 % 11 % VOCABULARY);
}

static void set_text(struct model *m)
{
    int32_t *tokens = tide_machine_input(m->machine, m->gpt.tokens),
            *targets = tide_machine_input(m->machine, m->gpt.targets);
    for (int i = 0; i < SEQUENCE; i++) {
        tokens[i] = token_at(i);
        targets[i] = token_at(i + 1);
    }
}

static void assert_same(const float *logits, const float *expected, double tolerance, int64_t position)
{
    for (int token = 0; token < VOCABULARY; token++)
        if (!(fabs((double)(logits[token] - expected[token])) <= tolerance))
            fail_msg("position %lld, token %d: %.7g instead of %.7g", (long long)position, token,
                     (double)logits[token], (double)expected[token]);
}

static double loss_of(const float *logits, int32_t target)
{
    double sum = 0;
    for (int token = 0; token < VOCABULARY; token++)
        sum += exp((double)logits[token]);
    return log(sum) - (double)logits[target];
}

static void decoding_is_the_whole_pass(enum tide_dtype compute, double tolerance)
{
    struct model m = new_model(compute, config.positions);
    float expected[SEQUENCE][VOCABULARY];
    int32_t text[SEQUENCE];
    double loss = 0, spread = 0;
    for (int i = 0; i < SEQUENCE; i++)
        text[i] = token_at(i);
    set_text(&m);
    tide_machine_run(m.machine, m.whole);
    memcpy(expected, tide_machine_result(m.machine, m.whole, m.logits), sizeof expected);
    for (int token = 0; token < VOCABULARY; token++)
        spread = fmax(spread, fabs((double)(expected[SEQUENCE - 1][token] - expected[SEQUENCE / 2][token])));
    assert_true(spread > 50 * tolerance);   /* else the tolerance would say little */
    tide_sampler_start(m.sampler, text, 1); /* row by row */
    for (int i = 0; i < SEQUENCE; i++) {
        if (i > 0)
            tide_sampler_append(m.sampler, text[i]);
        assert_same(tide_sampler_logits(m.sampler), expected[i], tolerance, i);
        loss += loss_of(tide_sampler_logits(m.sampler), token_at(i + 1)) / SEQUENCE;
    }
    for (int i = 0; i < SEQUENCE; i++) { /* in blocks */
        tide_sampler_start(m.sampler, text, i + 1);
        assert_same(tide_sampler_logits(m.sampler), expected[i], tolerance, i);
    }
    tide_machine_run(m.machine, m.gpt.evaluate);
    float evaluated = *(const float *)tide_machine_result(m.machine, m.gpt.evaluate, m.gpt.loss);
    assert_true(fabs((double)evaluated - loss) <= tolerance);
    free_model(&m);
}

/* f32: the orders of sums differ. bf16: a value that lies between two of its 8-bit neighbours may round to
 * either, and so do those that follow from it. */
static void decoding_gives_what_the_whole_pass_gives_at_every_position(void **state)
{
    (void)state;
    tide_threads_set(2);
    decoding_is_the_whole_pass(TIDE_F32, 5e-6);
    tide_threads_set(1);
    decoding_is_the_whole_pass(TIDE_F32, 5e-6);
    decoding_is_the_whole_pass(TIDE_BF16, 5e-3);
}

static void a_full_window_goes_on_with_its_newer_half(void **state)
{
    (void)state;
    enum { WINDOW = 9, TEXT = 30 };
    struct model m = new_model(TIDE_F32, WINDOW);
    int32_t text[TEXT];
    int64_t first = 0;
    for (int i = 0; i < TEXT; i++) {
        float logits[VOCABULARY];
        text[i] = token_at(i + 1);
        if (i == 0)
            tide_sampler_start(m.sampler, text, 1);
        else
            tide_sampler_append(m.sampler, text[i]);
        memcpy(logits, tide_sampler_logits(m.sampler), sizeof logits);
        if (i - first == WINDOW)
            first = i - WINDOW / 2;
        tide_sampler_start(m.sampler, text + first, i + 1 - first);
        assert_memory_equal(tide_sampler_logits(m.sampler), logits, sizeof logits);
    }
    /* Of a prompt longer than the window the end counts. */
    float logits[VOCABULARY];
    tide_sampler_start(m.sampler, text, TEXT);
    memcpy(logits, tide_sampler_logits(m.sampler), sizeof logits);
    tide_sampler_start(m.sampler, text + TEXT - WINDOW, WINDOW);
    assert_memory_equal(tide_sampler_logits(m.sampler), logits, sizeof logits);
    free_model(&m);
}

static void a_window_of_one_place_is_enough_to_speak(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, 1);
    struct tide_sample_rule rule = {.top_p = 1};
    int32_t prompt[3] = {1, 2, 3}, out[7];
    assert_int_equal(tide_sampler_tokens(m.sampler, prompt, 3, &rule, -1, out, 7), 7);
    free_model(&m);
}

static void training_between_samples_changes_nothing_but_the_weights(void **state)
{
    (void)state;
    struct model with = new_model(TIDE_F32, config.positions),
                 without = new_model(TIDE_F32, config.positions);
    struct model *both[2] = {&with, &without};
    struct tide_update_rule rule = {.step = {.rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F},
                                    .micro_batches = 1};
    struct tide_sample_rule how = {.temperature = 1, .top_p = 1};
    float losses[2] = {0};
    for (int step = 1; step <= 3; step++)
        for (int k = 0; k < 2; k++) {
            struct model *m = both[k];
            int32_t *tokens = tide_machine_input(m->machine, m->gpt.tokens), out[50];
            set_text(m);
            rule.step.step = step;
            losses[k] = tide_machine_pass(m->machine, 0, &rule);
            tide_machine_update(m->machine, &rule);
            if (k == 0)
                assert_int_equal(tide_sampler_tokens(m->sampler, tokens, 5, &how, -1, out, 50), 50);
        }
    assert_true(losses[0] == losses[1]);
    for (int i = 0; i < with.graph->tensor_count; i++)
        if (with.graph->tensors[i].role == TIDE_PARAMETER)
            assert_memory_equal(lent(with.machine, i), lent(without.machine, i),
                                with.graph->tensors[i].bytes);
    free_model(&with);
    free_model(&without);
}

static size_t decoder_bytes(const struct model *m)
{
    size_t prompt = m->plan.layouts[m->decoder.prompt.program].bytes,
           next = m->plan.layouts[m->decoder.next.program].bytes;
    return m->graph->bytes[TIDE_PASSES] + (prompt > next ? prompt : next);
}

/* What programs share is as much as the largest of them takes. */
static void programs_share_memory(void **state)
{
    (void)state;
    struct tide_choices least = {.recompute = 3, .fused = true};
    struct model m = new_model(TIDE_F32, config.positions);
    assert_true(decoder_bytes(&m) < m.plan.layouts[m.gpt.train].bytes);
    assert_int_equal(m.plan.bytes[TIDE_PASSES], m.plan.layouts[m.gpt.train].bytes);
    assert_int_equal(tide_machine_high_bytes(m.machine), m.plan.total);
    free_model(&m);
    struct tide_gpt_config big = config;
    big.positions = 4000;
    m = model_of(&big, TIDE_F32, 4000, &least);
    assert_true(decoder_bytes(&m) > m.plan.layouts[m.gpt.train].bytes);
    assert_int_equal(m.plan.bytes[TIDE_PASSES], decoder_bytes(&m));
    assert_int_equal(tide_machine_high_bytes(m.machine), m.plan.total);
    free_model(&m);
}

static void a_decoder_of_another_model_is_refused(void **state)
{
    (void)state;
    struct tide_err err = {0};
    struct model m = new_model(TIDE_F32, config.positions);
    struct tide_gpt_config other = config;
    struct tide_gpt_decoder decoder;
    other.hidden--;
    assert_int_equal(tide_gpt_build_decoder(m.graph, &other, 1, 8, &decoder, &err), -1);
    assert_non_null(strstr(err.text, "h.0.mlp.c_fc.weight"));
    free_model(&m);
}

/* Slots do not see each other, and one that is left out stays as it is. */
static void slots_decode_as_if_alone(void **state)
{
    (void)state;
    enum { SLOTS = 3 };
    for (int compute = TIDE_F32; compute <= TIDE_BF16; compute++) {
        struct tide_err err;
        struct model alone = new_model(compute, config.positions), m = {.graph = NULL};
        struct tide_choices none = {0};
        m.graph = tide_graph_new(compute);
        ok(tide_gpt_build_decoder(m.graph, &config, SLOTS, config.positions, &m.decoder, &err), &err);
        m.device = &tide_cpu_device;
        ok(tide_plan_make(m.graph, m.device, &none, &m.plan, &err), &err);
        ok(tide_machine_new(m.graph, m.device, &m.plan, &m.machine, &err), &err);
        for (int i = 0; i < m.graph->tensor_count; i++) {
            const struct tide_tensor *t = &m.graph->tensors[i];
            uint64_t found;
            if (t->role != TIDE_PARAMETER)
                continue;
            assert_true(tide_map_get(&alone.graph->names,
                                     tide_map_key(TIDE_MAP_SEED, t->name, strlen(t->name)), &found));
            memcpy(lent(m.machine, i), lent(alone.machine, (int)found), t->bytes);
        }
        int32_t text[SLOTS][12], tokens[SLOTS], positions[SLOTS], lengths[SLOTS] = {2, 9, 5};
        for (int s = 0; s < SLOTS; s++) {
            for (int i = 0; i < 12; i++)
                text[s][i] = token_at(i + 5 * s);
            tide_decoder_read(&m.decoder, m.machine, s, text[s], lengths[s]);
        }
        for (int round = 0; round < 3; round++) {
            for (int s = 0; s < SLOTS; s++) {
                tokens[s] = s == round ? -1 : text[s][lengths[s]];
                positions[s] = lengths[s];
            }
            const float *logits = tide_decoder_next(&m.decoder, m.machine, tokens, positions);
            for (int s = 0; s < SLOTS; s++) {
                if (s == round)
                    continue;
                tide_sampler_start(alone.sampler, text[s], ++lengths[s]);
                assert_same(logits + s * VOCABULARY, tide_sampler_logits(alone.sampler),
                            compute == TIDE_F32 ? 5e-6 : 5e-3, lengths[s]);
            }
        }
        free_model(&m);
        free_model(&alone);
    }
}

static void speaking_allocates_nothing(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    struct model m = new_model(TIDE_F32, 20);
    struct tide_sample_rule rule = {.temperature = 1, .top_k = 7, .top_p = 0.9, .seed = 3};
    int32_t prompt[30], out[40];
    for (int i = 0; i < 30; i++)
        prompt[i] = token_at(i);
    failing_arm(0);
    int64_t made = tide_sampler_tokens(m.sampler, prompt, 30, &rule, -1, out, 40);
    assert_false(failing_disarm());
    assert_int_equal(made, 40);
    free_model(&m);
#else
    skip();
#endif
}

/* Every allocation on the way to a sampler may fail. */
static void a_failed_allocation_is_said(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    struct model m = new_model(TIDE_F32, 20);
    bool failed = true;
    for (long good = 0; failed; good++) {
        struct tide_err err = {0};
        struct tide_sampler *sampler = NULL;
        failing_arm(good);
        int status = tide_sampler_new(&config, &m.decoder, m.machine, &sampler, &err);
        failed = failing_disarm();
        assert_int_equal(status, failed ? -1 : 0);
        assert_true(!failed || strstr(err.text, "out of memory"));
        tide_sampler_free(sampler);
    }
    free_model(&m);
#else
    skip();
#endif
}

static void a_seed_says_the_same_again(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct model m = new_model(TIDE_F32, config.positions);
    struct tide_sample_rule rule = {.temperature = 1, .top_k = 8, .top_p = 0.95, .seed = 1};
    int32_t prompt[1] = {3}, first[COUNT], again[COUNT], other[COUNT];
    assert_int_equal(tide_sampler_tokens(m.sampler, prompt, 1, &rule, -1, first, COUNT), COUNT);
    assert_int_equal(tide_sampler_tokens(m.sampler, prompt, 1, &rule, -1, again, COUNT), COUNT);
    assert_memory_equal(first, again, sizeof first);
    rule.seed = 2;
    assert_int_equal(tide_sampler_tokens(m.sampler, prompt, 1, &rule, -1, other, COUNT), COUNT);
    assert_memory_not_equal(first, other, sizeof first);
    /* What ends a text is its last token. */
    rule.seed = 1;
    int64_t end = 0;
    while (first[end] != first[20])
        end++;
    assert_int_equal(tide_sampler_tokens(m.sampler, prompt, 1, &rule, first[20], again, COUNT), end + 1);
    free_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_gives_what_the_whole_pass_gives_at_every_position),
        cmocka_unit_test(a_full_window_goes_on_with_its_newer_half),
        cmocka_unit_test(a_window_of_one_place_is_enough_to_speak),
        cmocka_unit_test(training_between_samples_changes_nothing_but_the_weights),
        cmocka_unit_test(programs_share_memory),
        cmocka_unit_test(slots_decode_as_if_alone),
        cmocka_unit_test(a_decoder_of_another_model_is_refused),
        cmocka_unit_test(speaking_allocates_nothing),
        cmocka_unit_test(a_failed_allocation_is_said),
        cmocka_unit_test(a_seed_says_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
