/*
 * test_train_rollout.c - completions of groups: the same bits however they are generated, from the
 * distribution they promise.
 */
#include "lent.h"
#include "failing_malloc.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/processor.h"
#include "rt/cpu/threads.h"
#include "base/random.h"
#include "train/rollout.h"
#include "sanitized.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 90, MOST_SEQUENCES = 12, MOST_NEW = 24, PROMPTS = 3 };

static const struct tide_gpt_config small = {.vocabulary = 13,
                                             .positions = WINDOW,
                                             .channels = 32,
                                             .heads = 2,
                                             .blocks = 3,
                                             .hidden = 50,
                                             .epsilon = 1e-5F};

struct model {
    struct tide_gpt_config config;
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_gpt_decoder one, decoder; /* of one slot; of several */
    struct tide_plan plan;
    struct tide_machine *machine;
    struct tide_sampler *sampler;
    struct tide_rollout *rollout;
};

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

static void make_weights(struct model *m)
{
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        float *weight = lent(m->machine, i),
              least = strstr(t->name, "ln_") && strstr(t->name, "weight") ? 0.5F : -0.3F;
        uint64_t name = tide_map_key(TIDE_MAP_SEED, t->name, strlen(t->name));
        for (int64_t k = 0; k < tide_tensor_count(t); k++)
            weight[k] = least + 0.6F * (float)tide_random_unit(5, name, (uint64_t)k);
    }
}

static struct model new_model(const struct tide_gpt_config *config, enum tide_dtype compute, int64_t slots,
                              int64_t sequences)
{
    struct tide_err err;
    struct tide_choices none = {0};
    struct model m = {.config = *config, .graph = tide_graph_new(compute)};
    assert_non_null(m.graph);
    ok(tide_gpt_build_decoder(m.graph, config, slots, WINDOW, &m.decoder, &err), &err);
    ok(tide_gpt_build_decoder(m.graph, config, 1, WINDOW, &m.one, &err), &err);
    m.device = &tide_cpu_device;
    ok(tide_plan_make(m.graph, m.device, &none, &m.plan, &err), &err);
    ok(tide_machine_new(m.graph, m.device, &m.plan, &m.machine, &err), &err);
    ok(tide_sampler_new(config, &m.one, m.machine, &m.sampler, &err), &err);
    ok(tide_rollout_new(config, &m.decoder, m.machine, sequences, MOST_NEW, &m.rollout, &err), &err);
    make_weights(&m);
    return m;
}

static void free_model(struct model *m)
{
    tide_rollout_free(m->rollout);
    tide_sampler_free(m->sampler);
    tide_machine_free(m->machine);
    tide_graph_free(m->graph);
}

/* Prompts of one token, of a few, and of more than are read at a time, of which one is left over. */
static int32_t texts[PROMPTS][WINDOW];
static struct tide_rollout_prompt prompts[PROMPTS] = {{texts[0], 1}, {texts[1], 66}, {texts[2], 5}};

static int make_prompts(void **state)
{
    (void)state;
    for (int p = 0; p < PROMPTS; p++)
        for (int i = 0; i < WINDOW; i++)
            texts[p][i] = (int32_t)(tide_random_at(3, (uint64_t)p, (uint64_t)i) % 13);
    return 0;
}

static struct tide_rollout_request request_of(int64_t group)
{
    return (struct tide_rollout_request){.prompts = prompts,
                                         .prompt_count = PROMPTS,
                                         .group = group,
                                         .new_tokens = MOST_NEW,
                                         .end = 4,
                                         .rule = {.temperature = 1, .top_p = 1, .seed = 8},
                                         .step = 2};
}

/* What came of a request, with zeros behind the ends. */
struct outcome {
    int32_t tokens[MOST_SEQUENCES][MOST_NEW];
    float log_probabilities[MOST_SEQUENCES][MOST_NEW];
    int64_t counts[MOST_SEQUENCES], made;
    bool ended[MOST_SEQUENCES];
};

static struct outcome outcome_of(struct model *m, const struct tide_rollout_request *request)
{
    struct tide_err err;
    struct outcome o;
    int more;
    memset(&o, 0, sizeof o);
    ok(tide_rollout_start(m->rollout, request, &err), &err);
    do {
        more = tide_rollout_next(m->rollout, &err);
        ok(more < 0, &err);
    } while (more);
    assert_int_equal(tide_rollout_next(m->rollout, &err), 0);
    for (int64_t i = 0; i < request->prompt_count * request->group; i++) {
        struct tide_completion c = tide_rollout_completion(m->rollout, i);
        assert_in_range(c.count, 1, request->new_tokens);
        memcpy(o.tokens[i], c.tokens, (size_t)c.count * sizeof *c.tokens);
        memcpy(o.log_probabilities[i], c.log_probabilities, (size_t)c.count * sizeof(float));
        o.counts[i] = c.count;
        o.ended[i] = c.ended;
        o.made += c.count;
    }
    assert_int_equal(tide_rollout_made(m->rollout), o.made);
    return o;
}

static void greedy_tokens_are_those_of_the_sampler(void **state)
{
    (void)state;
    for (int compute = TIDE_F32; compute <= TIDE_BF16; compute++) {
        struct model m = new_model(&small, compute, 2, MOST_SEQUENCES);
        struct tide_rollout_request request = request_of(2);
        request.rule.temperature = 0;
        struct outcome o = outcome_of(&m, &request);
        for (int64_t i = 0; i < 2 * PROMPTS; i++) {
            const struct tide_rollout_prompt *p = &prompts[i / 2];
            int32_t out[MOST_NEW];
            assert_int_equal(tide_sampler_tokens(m.sampler, p->tokens, p->count, &request.rule, request.end,
                                                 out, MOST_NEW),
                             o.counts[i]);
            assert_memory_equal(out, o.tokens[i], (size_t)o.counts[i] * sizeof *out);
        }
        free_model(&m);
    }
}

/* With a group of one, each sequence's prompt is read for itself. */
static void copies_of_a_prompt_are_the_prompt_to_the_bit(void **state)
{
    (void)state;
    for (int compute = TIDE_F32; compute <= TIDE_BF16; compute++) {
        struct model m = new_model(&small, compute, 5, MOST_SEQUENCES);
        struct tide_rollout_request request = request_of(4), alone = request_of(1);
        struct tide_rollout_prompt each[MOST_SEQUENCES];
        struct outcome grouped = outcome_of(&m, &request);
        for (int i = 0; i < MOST_SEQUENCES; i++)
            each[i] = prompts[i / 4];
        alone.prompts = each;
        alone.prompt_count = MOST_SEQUENCES;
        struct outcome read = outcome_of(&m, &alone);
        assert_memory_equal(&grouped, &read, sizeof read);
        assert_memory_not_equal(grouped.tokens[0], grouped.tokens[1], sizeof grouped.tokens[0]);
        free_model(&m);
    }
}

/* With AMX, bf16 products of more than 16 rows round elsewhere than those of few (few.h). */
static int most_slots(enum tide_dtype compute)
{
    return compute == TIDE_BF16 && tide_isa() >= TIDE_ISA_AMX ? 16 : 18;
}

static int step_of(int slots)
{
    return is_slow() ? 7 : slots < 3 ? 1 : 5;
}

/* 4200 x 32 numbers are enough for products of few rows (few.h). */
static void slots_and_threads_change_no_bit(void **state)
{
    (void)state;
    struct tide_gpt_config wide = small;
    wide.vocabulary = 4200;
    for (int compute = TIDE_F32; compute <= TIDE_BF16; compute++)
        for (int which = 0; which < 2; which++) {
            struct outcome first;
            struct tide_rollout_request request = request_of(4);
            if (is_slow() && which != (compute == TIDE_F32)) /* each once */
                continue;
            request.rule.top_p = which ? 0.9 : 1;
            request.rule.temperature = which ? 0.8 : 1;
            for (int slots = 1; slots <= most_slots((enum tide_dtype)compute); slots += step_of(slots)) {
                tide_threads_set(slots % 3 + 1);
                struct model m = new_model(which ? &wide : &small, compute, slots, MOST_SEQUENCES);
                struct outcome o = outcome_of(&m, &request);
                if (slots == 1)
                    first = o;
                assert_memory_equal(&o, &first, sizeof o);
                free_model(&m);
            }
        }
    tide_threads_set(1);
}

static void a_step_says_the_same_again_and_another_says_something_else(void **state)
{
    (void)state;
    struct model used = new_model(&small, TIDE_F32, 4, MOST_SEQUENCES),
                 fresh = new_model(&small, TIDE_F32, 4, MOST_SEQUENCES);
    struct tide_rollout_request request = request_of(4);
    struct outcome before = outcome_of(&used, &request);
    request.step++;
    struct outcome next = outcome_of(&used, &request), resumed = outcome_of(&fresh, &request);
    assert_memory_equal(&next, &resumed, sizeof next);
    assert_memory_not_equal(&before, &next, sizeof next);
    request.rule.seed++;
    struct outcome other = outcome_of(&fresh, &request);
    assert_memory_not_equal(&other, &next, sizeof next);
    free_model(&used);
    free_model(&fresh);
}

/* Slots are free again when a sequence ends, so that nobody waits for the longest. */
static void ends_end_completions_and_free_their_slots(void **state)
{
    (void)state;
    struct model m = new_model(&small, TIDE_F32, 2, MOST_SEQUENCES);
    struct tide_rollout_request request = request_of(4);
    struct outcome o = outcome_of(&m, &request);
    int by_end = 0, by_length = 0;
    for (int i = 0; i < MOST_SEQUENCES; i++) {
        for (int64_t k = 0; k < o.counts[i]; k++)
            assert_true((o.tokens[i][k] == request.end) == (o.ended[i] && k == o.counts[i] - 1));
        assert_true(o.ended[i] || o.counts[i] == MOST_NEW);
        by_end += o.ended[i];
        by_length += !o.ended[i];
    }
    assert_true(by_end > 2 && by_length > 2);
    int64_t rounds = 0;
    struct tide_err err;
    ok(tide_rollout_start(m.rollout, &request, &err), &err);
    while (tide_rollout_next(m.rollout, &err) > 0)
        rounds++;
    assert_true(rounds < (o.made + MOST_NEW) / 2 + 1);
    request.end = -1;
    o = outcome_of(&m, &request);
    assert_int_equal(o.made, MOST_SEQUENCES * MOST_NEW);
    free_model(&m);
}

static void log_probabilities(const float *logits, double temperature, double to[13])
{
    double sum = 0;
    for (int i = 0; i < 13; i++)
        sum += exp((double)logits[i] / temperature);
    for (int i = 0; i < 13; i++)
        to[i] = (double)logits[i] / temperature - log(sum);
}

/* Of the whole vocabulary, whatever top-k and top-p leave. */
static void log_probabilities_are_those_of_the_policy(void **state)
{
    (void)state;
    struct model m = new_model(&small, TIDE_F32, 3, MOST_SEQUENCES);
    struct tide_rollout_request request = request_of(4);
    request.rule = (struct tide_sample_rule){.temperature = 1.5, .top_k = 6, .top_p = 0.8, .seed = 1};
    struct outcome o = outcome_of(&m, &request);
    for (int i = 0; i < MOST_SEQUENCES; i++) {
        const struct tide_rollout_prompt *p = &prompts[i / 4];
        tide_sampler_start(m.sampler, p->tokens, p->count);
        for (int64_t k = 0; k < o.counts[i]; k++) {
            double expected[13];
            log_probabilities(tide_sampler_logits(m.sampler), 1.5, expected);
            assert_true(fabs((double)o.log_probabilities[i][k] - expected[o.tokens[i][k]]) < 5e-6);
            tide_sampler_append(m.sampler, o.tokens[i][k]);
        }
    }
    free_model(&m);
}

/* Against Pearson's statistic: 12 degrees of freedom exceed 32.9 once in a thousand; the seed is fixed. */
static void sequences_draw_from_the_distribution(void **state)
{
    (void)state;
    enum { GROUP = 20000 };
    struct model m = new_model(&small, TIDE_F32, 16, GROUP);
    struct tide_rollout_request request = request_of(GROUP);
    struct tide_err err;
    double expected[13], counts[13] = {0}, statistic = 0;
    request.prompts = &prompts[2];
    request.prompt_count = request.new_tokens = 1;
    ok(tide_rollout_start(m.rollout, &request, &err), &err);
    while (tide_rollout_next(m.rollout, &err) > 0)
        ;
    for (int i = 0; i < GROUP; i++)
        counts[tide_rollout_completion(m.rollout, i).tokens[0]]++;
    tide_sampler_start(m.sampler, prompts[2].tokens, prompts[2].count);
    log_probabilities(tide_sampler_logits(m.sampler), 1, expected);
    for (int i = 0; i < 13; i++)
        statistic += pow(counts[i] - GROUP * exp(expected[i]), 2) / (GROUP * exp(expected[i]));
    assert_true(statistic < 32.9);
    free_model(&m);
}

static void expect_refusal(struct model *m, const struct tide_rollout_request *request, const char *what)
{
    struct tide_err err = {0};
    assert_int_equal(tide_rollout_start(m->rollout, request, &err), -1);
    if (!strstr(err.text, what))
        fail_msg("'%s' instead of '%s'", err.text, what);
}

static void a_prompt_must_leave_room(void **state)
{
    (void)state;
    struct model m = new_model(&small, TIDE_F32, 2, MOST_SEQUENCES);
    struct tide_rollout_request request = request_of(2);
    struct tide_rollout_prompt longest[2] = {prompts[0], {texts[1], WINDOW + 1 - MOST_NEW}};
    request.prompts = longest;
    request.prompt_count = 2;
    request.end = -1;
    struct outcome o = outcome_of(&m, &request);
    assert_int_equal(o.counts[3], MOST_NEW);
    longest[1].count++;
    expect_refusal(&m, &request, "prompt 2 has 68 tokens; with 24 new ones there is room for only 67");
    longest[1].count = 0;
    expect_refusal(&m, &request, "prompt 2 is empty");
    longest[1].count = 3;
    longest[1].tokens = (int32_t[]){1, 13, 2};
    expect_refusal(&m, &request, "prompt 2 has the token 13, and the vocabulary ends at 12");
    longest[1].tokens = (int32_t[]){1, -1, 2};
    expect_refusal(&m, &request, "prompt 2 has the token -1");
    request = request_of(2);
    request.rule.top_p = 2;
    expect_refusal(&m, &request, "top-p");
    free_model(&m);
}

static void logits_that_are_no_numbers_are_said(void **state)
{
    (void)state;
    struct model m = new_model(&small, TIDE_F32, 2, MOST_SEQUENCES);
    struct tide_rollout_request request = request_of(2);
    struct tide_err err = {0};
    int more;
    ok(tide_rollout_start(m.rollout, &request, &err), &err);
    assert_int_equal(tide_rollout_next(m.rollout, &err), 1);
    for (int i = 0; i < m.graph->tensor_count; i++)
        if (!strcmp(m.graph->tensors[i].name, "ln_f.weight"))
            *(float *)lent(m.machine, i) = NAN;
    while ((more = tide_rollout_next(m.rollout, &err)) > 0)
        ;
    assert_int_equal(more, -1);
    assert_string_equal(err.text, "the logits after 1 tokens of completion 1 are not numbers");
    free_model(&m);
}

static void nothing_is_allocated(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    struct model m = new_model(&small, TIDE_F32, 3, MOST_SEQUENCES);
    struct tide_rollout_request request = request_of(4);
    request.rule.top_k = 7;
    request.rule.top_p = 0.9;
    failing_arm(0);
    struct outcome o = outcome_of(&m, &request);
    assert_false(failing_disarm());
    assert_true(o.made > 0);
    failing_arm(0);
    struct tide_rollout *none = NULL;
    struct tide_err err = {0};
    int status = tide_rollout_new(&small, &m.decoder, m.machine, 4, 4, &none, &err);
    assert_true(failing_disarm());
    assert_int_equal(status, -1);
    assert_string_equal(err.text, "out of memory for 4 completions");
    free_model(&m);
#else
    skip();
#endif
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct tide_gpt_decoder decoder = {.slots = 8, .window = 174};
    struct tide_err err = {0};
    struct tide_rollout *none;
    assert_int_equal(tide_rollout_new(&small, &decoder, NULL, 0, 144, &none, &err), -1);
    assert_int_equal(tide_rollout_new(&small, &decoder, NULL, 8, INT64_MAX, &none, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_tokens_are_those_of_the_sampler),
        cmocka_unit_test(copies_of_a_prompt_are_the_prompt_to_the_bit),
        cmocka_unit_test(slots_and_threads_change_no_bit),
        cmocka_unit_test(a_step_says_the_same_again_and_another_says_something_else),
        cmocka_unit_test(ends_end_completions_and_free_their_slots),
        cmocka_unit_test(log_probabilities_are_those_of_the_policy),
        cmocka_unit_test(sequences_draw_from_the_distribution),
        cmocka_unit_test(a_prompt_must_leave_room),
        cmocka_unit_test(logits_that_are_no_numbers_are_said),
        cmocka_unit_test(nothing_is_allocated),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, make_prompts, NULL);
}
