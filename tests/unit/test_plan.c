/*
 * test_plan.c - the parts of a plan: the allocator, the tape, models from untrusted files, jobs that do not
 * go together, and memory that fails.
 */
#include "failing_malloc.h"
#include "plan/plan_text.h"
#include "plan/torch_op.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

enum { MIB = 1 << 20 };

static void small_requests_share_a_segment_of_two_mebibytes(void **state)
{
    (void)state;
    struct tide_cacher c;
    tide_cacher_init(&c, TIDE_CACHER_POOLS);
    int first = tide_cacher_take(&c, 1), second = tide_cacher_take(&c, 513);
    assert_int_equal(c.allocated, 512 + 1024);
    assert_int_equal(c.reserved, 2 * MIB);
    tide_cacher_give(&c, first);
    tide_cacher_give(&c, second);
    assert_int_equal(c.allocated, 0);
    int whole = tide_cacher_take(&c, MIB);
    assert_int_equal(c.reserved, 2 * MIB);
    tide_cacher_give(&c, whole);
    tide_cacher_release(&c);
}

static void large_requests_have_segments_of_their_own(void **state)
{
    (void)state;
    struct tide_cacher c;
    tide_cacher_init(&c, TIDE_CACHER_POOLS);
    int medium = tide_cacher_take(&c, 3 * MIB);
    assert_int_equal(c.reserved, 20 * MIB);
    int large = tide_cacher_take(&c, 25 * MIB + 1);
    assert_int_equal(c.reserved, (20 + 26) * MIB);
    /* Less than a mebibyte is left over, which is not cut off, and counts. */
    assert_int_equal(tide_cacher_size(&c, large), 26 * MIB);
    tide_cacher_give(&c, medium);
    tide_cacher_give(&c, large);
    /* The smallest that holds it: the one of 20. */
    int again = tide_cacher_take(&c, 18 * MIB);
    assert_int_equal(c.reserved, (20 + 26) * MIB);
    assert_int_equal(tide_cacher_take(&c, 26 * MIB), large);
    tide_cacher_give(&c, again);
    tide_cacher_release(&c);
}

static void what_one_stream_let_go_another_does_not_get(void **state)
{
    (void)state;
    struct tide_cacher c;
    tide_cacher_init(&c, TIDE_CACHER_POOLS);
    tide_cacher_give(&c, tide_cacher_take(&c, 30 * MIB));
    c.stream = TIDE_STREAM_GATHER;
    int block = tide_cacher_take(&c, 30 * MIB);
    assert_int_equal(c.reserved, 60 * MIB);
    c.stream = TIDE_STREAM_OWN;
    tide_cacher_give(&c, block);
    tide_cacher_take(&c, 30 * MIB);
    assert_int_equal(c.reserved, 60 * MIB);
    tide_cacher_release(&c);
}

/* Two free blocks of one size: the later segment lies lower. */
static void of_free_blocks_of_one_size_the_lowest_is_taken(void **state)
{
    (void)state;
    struct tide_cacher c;
    tide_cacher_init(&c, TIDE_CACHER_POOLS);
    tide_cacher_take(&c, 600 * MIB);
    int early = tide_cacher_take(&c, 600 * MIB), late = tide_cacher_take(&c, 600 * MIB);
    tide_cacher_give(&c, early);
    tide_cacher_give(&c, late);
    assert_int_equal(tide_cacher_take(&c, 600 * MIB), late);
    tide_cacher_release(&c);
}

static void a_heap_shrinks_from_its_end_alone(void **state)
{
    (void)state;
    struct tide_cacher c;
    tide_cacher_init(&c, TIDE_CACHER_HEAP);
    /* A mapping goes back at once, and from then on what is smaller comes from the heap. */
    tide_cacher_give(&c, tide_cacher_take(&c, 32 * MIB));
    assert_int_equal(c.reserved, 0);
    int low = tide_cacher_take(&c, 20 * MIB), middle = tide_cacher_take(&c, 20 * MIB);
    int high = tide_cacher_take(&c, MIB);
    int64_t all = c.reserved;
    tide_cacher_give(&c, low);
    tide_cacher_give(&c, middle);
    assert_int_equal(c.reserved, all);
    int again = tide_cacher_take(&c, 30 * MIB);
    assert_int_equal(c.reserved, all);
    tide_cacher_give(&c, again);
    int more = tide_cacher_take(&c, 31 * MIB);
    tide_cacher_give(&c, high);
    tide_cacher_give(&c, more);
    assert_int_equal(c.reserved, all); /* less than twice the threshold lies at the end */
    low = tide_cacher_take(&c, 31 * MIB);
    middle = tide_cacher_take(&c, 31 * MIB);
    high = tide_cacher_take(&c, 31 * MIB);
    tide_cacher_give(&c, high);
    tide_cacher_give(&c, middle);
    tide_cacher_give(&c, low);
    assert_true(c.reserved < 64 * MIB);
    assert_int_equal(c.allocated, 0);
    tide_cacher_release(&c);
}

static void sizes_past_every_bound_fail_and_stay_failed(void **state)
{
    (void)state;
    struct tide_cacher c;
    tide_cacher_init(&c, TIDE_CACHER_POOLS);
    assert_int_equal(tide_cacher_take(&c, INT64_MAX), -1);
    assert_true(c.failed);
    assert_int_equal(tide_cacher_take(&c, 512), -1);
    tide_cacher_give(&c, -1);
    tide_cacher_release(&c);
    assert_int_equal(tide_times(INT64_MAX / 2, 3), INT64_MAX);
    assert_int_equal(tide_times(1 << 20, 1 << 20), INT64_C(1) << 40);
}

/* What a linear layer keeps and gives back: forward holds its input, backward makes both gradients before the
 * input goes. */
static void a_graph_holds_what_it_saved_until_it_is_walked(void **state)
{
    (void)state;
    struct tide_tape tape;
    tide_tape_init(&tape, TIDE_CACHER_ROUNDED);
    tape.product_ran = tape.product_ran_backward = true;
    int weight = tide_tape_leaf(&tape, 1024 * 1024, 4, true, TIDE_PART_WEIGHTS);
    struct tide_sized x = tide_tape_take(&tape, 1024 * 1024, 4, TIDE_PART_INPUT);
    struct tide_sized y = tide_torch_linear(&tape, x, weight, -1, 1024, 1024, true, TIDE_PART_MLP);
    tide_tape_drop(&tape, x);
    assert_int_equal(tape.cacher.allocated, 3 * 4 * MIB);
    struct tide_sized mean = tide_torch_mean(&tape, y, 1);
    tide_tape_drop(&tape, y);
    assert_int_equal(tape.owned[TIDE_PART_MLP], 0);
    tide_tape_phase(&tape, "backward");
    tide_tape_backward(&tape, mean, 0);
    /* Weight, its gradient; the input is gone. At the peak: both, the input, and the output's gradient. */
    assert_int_equal(tape.cacher.allocated, 2 * 4 * MIB);
    assert_int_equal(tape.owned[TIDE_PART_GRADIENTS], 4 * MIB);
    assert_true(tape.phases[tape.phase].peak >= 4 * 4 * MIB);
    assert_false(tape.failed);
    tide_tape_release(&tape);
}

static void a_model_is_found_by_name_or_suggested(void **state)
{
    (void)state;
    struct tide_architecture m;
    struct tide_err err;
    assert_int_equal(tide_model_find("gpt2", &m, &err), 0);
    assert_int_equal(m.vocabulary, 50257);
    assert_int_equal(tide_model_find("gtp2", &m, &err), -1);
    assert_string_equal(err.hint, "did you mean 'gpt2'?");
    assert_int_equal(tide_model_find("./no/such/config.json", &m, &err), -1);
    assert_non_null(strstr(err.text, "cannot open"));
}

static int parse(const char *text, struct tide_architecture *m, struct tide_err *err)
{
    return tide_model_parse(text, strlen(text), m, err);
}

static void configurations_of_four_families_are_read(void **state)
{
    (void)state;
    struct tide_architecture m;
    struct tide_err err;
    assert_int_equal(parse("{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_head\":4,\"n_layer\":3}", &m, &err),
                     0);
    assert_int_equal(m.hidden, 256);
    assert_int_equal(
        parse(
            "{\"model_type\":\"llama\",\"hidden_size\":128,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
            "\"intermediate_size\":300,\"num_hidden_layers\":5,\"vocab_size\":1000}",
            &m, &err),
        0);
    assert_int_equal(m.kv_heads, 2);
    assert_int_equal(m.head_channels, 16);
    assert_int_equal(parse("{\"model_type\":\"qwen2\"}", &m, &err), 0);
    assert_true(m.qkv_bias && !m.out_bias);
    assert_int_equal(
        parse(
            "{\"model_type\":\"vit\",\"image_size\":32,\"patch_size\":8,\"id2label\":{\"0\":\"a\",\"1\":\"b\"}}",
            &m, &err),
        0);
    assert_int_equal(m.classes, 2);
    assert_int_equal(
        parse(
            "{\"model_type\":\"resnet\",\"layer_type\":\"basic\",\"depths\":[1,1,1,1],\"hidden_sizes\":[64,128,256,512]}",
            &m, &err),
        0);
    assert_int_equal(m.layers, 4);
}

static void configurations_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *because;
    } bad[] = {
        {"", "not valid JSON"},
        {"[1]", "not a JSON object"},
        {"{}", "no model_type"},
        {"{\"model_type\":\"gpt3\"}", "'gpt3' cannot be planned"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":65,\"n_head\":4}", "not a multiple"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":-1}", "from 1 to"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":99999}", "number of layers"},
        {"{\"model_type\":\"llama\",\"hidden_size\":65,\"num_attention_heads\":4}", "not a multiple"},
        {"{\"model_type\":\"gpt2\",\"n_ctx\":5,\"n_positions\":6}", "contradict"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":\"wide\"}", "must be an integer"},
        {"{\"model_type\":\"gpt2\",\"vocab_size\":99999999999999999999}", "too large"},
        {"{\"model_type\":\"gpt2\",\"resid_pdrop\":1.5}", "from 0 to below 1"},
        {"{\"model_type\":\"llama\",\"num_attention_heads\":7,\"num_key_value_heads\":2,\"hidden_size\":70}",
         "not a multiple"},
        {"{\"model_type\":\"llama\",\"num_attention_heads\":0}", "from 1 to"},
        {"{\"model_type\":\"llama\",\"tie_word_embeddings\":1}", "must be true or false"},
        {"{\"model_type\":\"vit\",\"image_size\":30,\"patch_size\":16}", "not a multiple"},
        {"{\"model_type\":\"resnet\",\"depths\":[1,2]}", "four numbers"},
        {"{\"model_type\":\"resnet\",\"depths\":[1,2,3,-4]}", "blocks of width"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tide_architecture m;
        struct tide_err err = {{0}, {0}};
        assert_int_equal(parse(bad[i].text, &m, &err), -1);
        if (!strstr(err.text, bad[i].because))
            fail_msg("%s: '%s' does not say '%s'", bad[i].text, err.text, bad[i].because);
    }
}

static struct tide_job job_of(const char *model, int64_t sequence)
{
    struct tide_job job;
    struct tide_err err;
    tide_job_init(&job);
    assert_int_equal(tide_model_find(model, &job.model, &err), 0);
    job.sequence = sequence;
    return job;
}

static void jobs_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    struct tide_err err;
    struct tide_job job = job_of("gpt2", 2000);
    assert_int_equal(tide_job_check(&job, &err), -1);
    assert_non_null(strstr(err.text, "1024 positions"));
    job = job_of("vit-base", 100);
    assert_int_equal(tide_job_check(&job, &err), -1);
    job = job_of("resnet50", 224);
    job.task = TIDE_TASK_GRPO;
    assert_int_equal(tide_job_check(&job, &err), -1);
    job = job_of("gpt2", 100);
    job.task = TIDE_TASK_GRPO;
    job.generate = 100;
    assert_int_equal(tide_job_check(&job, &err), -1);
    job.batch = 0;
    assert_int_equal(tide_job_check(&job, &err), -1);
}

static void a_job_past_every_bound_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static struct tide_forecast forecast;
    struct tide_err err;
    struct tide_job job = job_of("llama-3.1-8b", 131072);
    job.batch = 1 << 24;
    job.eager = true;
    assert_int_equal(tide_forecast_make(&job, TIDE_FULL, &forecast, &err), -1);
    assert_non_null(strstr(err.text, "too large"));
}

static int64_t allocated(const struct tide_job *job)
{
    static struct tide_forecast forecast;
    struct tide_err err;
    assert_int_equal(tide_forecast_make(job, TIDE_POOLED, &forecast, &err), 0);
    return forecast.allocated;
}

static void what_saves_memory_saves_memory(void **state)
{
    (void)state;
    struct tide_job base = job_of("gpt2", 512), job = base;
    int64_t bytes = allocated(&base);
    job.checkpointing = true;
    assert_true(allocated(&job) < bytes);
    job = base;
    job.dtype = TIDE_DTYPE_BF16;
    assert_true(allocated(&job) < bytes);
    job = base;
    job.eager = true;
    assert_true(allocated(&job) > bytes);
    job = base;
    job.optimizer = TIDE_ADAMW_8BIT;
    assert_true(allocated(&job) < bytes);
    job = base;
    job.task = TIDE_TASK_INFER;
    assert_true(allocated(&job) < bytes / 2);
    job = base;
    job.degree = 8;
    int64_t replicated = allocated(&job);
    assert_true(replicated > bytes);
    for (int sharding = TIDE_SHARD_OPTIMIZER; sharding <= TIDE_SHARD_ALL; sharding++) {
        job.sharding = (enum tide_sharding)sharding;
        int64_t shared = allocated(&job);
        assert_true(shared < replicated);
        replicated = shared;
    }
}

/* At the update a process has a part of everything; gathered weights and flat gradients are gone. */
static void what_is_shared_out_is_divided(void **state)
{
    (void)state;
    static struct tide_forecast forecast;
    struct tide_err err;
    struct tide_job job = job_of("gpt2", 64);
    job.degree = 4;
    job.sharding = TIDE_SHARD_ALL;
    assert_int_equal(tide_forecast_make(&job, TIDE_FULL, &forecast, &err), 0);
    int64_t weights = forecast.parameters * 4;
    for (int i = 0; i < forecast.phase_count; i++) {
        const int64_t *owned = forecast.phases[i].owned;
        if (strcmp(forecast.phases[i].name, "update") != 0)
            continue;
        assert_in_range(owned[TIDE_PART_WEIGHTS], weights / 4, weights / 4 + weights / 100);
        assert_in_range(owned[TIDE_PART_GRADIENTS], weights / 4, weights / 4 + weights / 100);
        assert_in_range(owned[TIDE_PART_OPTIMIZER], weights / 2, weights / 2 + weights / 100);
        assert_int_equal(owned[TIDE_PART_GATHERED], 0);
        assert_int_equal(owned[TIDE_PART_BUCKETS], 0);
        return;
    }
    fail();
}

/* The word table is a third of GPT-2's parameters and goes to one process whole. */
static void a_state_is_given_to_one_process_whole(void **state)
{
    (void)state;
    static struct tide_forecast forecast;
    struct tide_err err;
    struct tide_job job = job_of("gpt2", 64);
    job.degree = 64;
    job.sharding = TIDE_SHARD_OPTIMIZER;
    assert_int_equal(tide_forecast_make(&job, TIDE_FULL, &forecast, &err), 0);
    int64_t table = INT64_C(50257) * 768 * 4;
    assert_in_range(forecast.owned[TIDE_PART_OPTIMIZER], 2 * table, 2 * table + 2 * MIB);
}

static void every_model_and_task_can_be_planned(void **state)
{
    (void)state;
    for (const char *const *name = tide_model_names(); *name; name++)
        for (int task = TIDE_TASK_PRETRAIN; task <= TIDE_TASK_INFER; task++) {
            struct tide_job job = job_of(*name, 64);
            bool sees = tide_model_sees(&job.model);
            if (sees && (task == TIDE_TASK_LORA || task == TIDE_TASK_GRPO))
                continue;
            job.task = (enum tide_job_task)task;
            job.sequence = sees ? job.model.image : 64;
            job.batch = 2;
            assert_true(allocated(&job) > 0);
        }
}

static void segments_that_are_wholly_free_are_given_back_at_the_limit(void **state)
{
    (void)state;
    struct tide_cacher c;
    tide_cacher_init(&c, TIDE_CACHER_POOLS);
    c.limit = 64 * MIB;
    int small = tide_cacher_take(&c, 512), large = tide_cacher_take(&c, 30 * MIB);
    tide_cacher_give(&c, large);
    assert_int_equal(c.reserved, 32 * MIB);
    large = tide_cacher_take(&c, 40 * MIB);
    assert_true(large >= 0);
    assert_int_equal(c.reserved, 42 * MIB);
    assert_int_equal(tide_cacher_take(&c, 30 * MIB), -1);
    assert_true(c.failed);
    tide_cacher_give(&c, large);
    tide_cacher_give(&c, small);
    tide_cacher_release(&c);
}

static bool fits(struct tide_job job, int64_t batch, int64_t device_bytes)
{
    job.batch = batch;
    return tide_capacity_find(&job, device_bytes).fits;
}

/* Measured on an H200 with torch 2.11, whose allocator was limited to the device less the context: each batch
 * fits, and one more does not. With llama's checkpointing, a batch of 80 does not fit either. */
static void the_largest_batch_is_one_number_and_what_fits_agrees_with_it(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int64_t sequence, device_bytes, batch;
        enum tide_precision dtype;
        bool checkpointing;
    } rows[] = {
        {"gpt2", 512, 24000000000, 22, TIDE_DTYPE_FP32, false},
        {"gpt2", 64, 80000000000, 632, TIDE_DTYPE_FP32, false},
        {"gpt2", 200, 10000000000, 47, TIDE_DTYPE_FP32, true},
        {"vit-base", 224, 24000000000, 367, TIDE_DTYPE_BF16, false},
        {"qwen2.5-0.5b", 64, 24000000000, 82, TIDE_DTYPE_BF16, false},
        {"llama-3.2-1b", 200, 40000000000, 94, TIDE_DTYPE_BF16, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tide_job job = job_of(rows[i].model, rows[i].sequence);
        job.dtype = rows[i].dtype;
        job.checkpointing = rows[i].checkpointing;
        int64_t between =
            1 + rows[i].batch / (is_slow() ? 1 : 4); /* at least one that fits and one that does not */
        for (int64_t batch = 1; batch < 2 * rows[i].batch; batch += between) {
            job.batch = batch;
            struct tide_capacity room = tide_capacity_find(&job, rows[i].device_bytes);
            assert_int_equal(room.batch, rows[i].batch);
            assert_true(!room.fits || batch <= room.batch);
        }
        assert_true(fits(job, rows[i].batch, rows[i].device_bytes));
        assert_false(fits(job, rows[i].batch + 1, rows[i].device_bytes));
    }
    struct tide_job job = job_of("llama-3.2-1b", 200);
    job.dtype = TIDE_DTYPE_BF16;
    job.checkpointing = true;
    assert_false(fits(job, 80, 40000000000));
}

static void the_longest_sequence_fits_and_one_more_does_not(void **state)
{
    (void)state;
    struct tide_job job = job_of("gpt2", 512);
    job.batch = 22;
    struct tide_capacity room = tide_capacity_find(&job, 24000000000);
    assert_true(room.fits && room.sequence >= 512 && room.sequence < 1024);
    job.sequence = room.sequence;
    assert_true(tide_capacity_find(&job, 24000000000).fits);
    job.sequence++;
    assert_false(tide_capacity_find(&job, 24000000000).fits);
    job.batch = 1;
    assert_int_equal(tide_capacity_find(&job, 24000000000).sequence, 1024);
    /* The prompt may be shorter than what is generated. */
    job.task = TIDE_TASK_INFER;
    job.generate = 1000;
    job.sequence = 10;
    assert_int_equal(tide_capacity_find(&job, 24000000000).sequence, 24);
}

static void nothing_fits_on_a_device_that_is_too_small(void **state)
{
    (void)state;
    struct tide_job job = job_of("gpt2", 512);
    struct tide_capacity room = tide_capacity_find(&job, MIB);
    assert_false(room.fits);
    assert_int_equal(room.batch, 0);
    assert_int_equal(room.sequence, 0);
}

#if HAVE_FAILING_MALLOC
static void a_plan_without_memory_fails_with_a_sentence(void **state)
{
    (void)state;
    static struct tide_forecast forecast;
    struct tide_job job = job_of("gpt2", 32);
    job.model.layers = 2;
    job.checkpointing = true;
    job.degree = 4;
    for (int sharding = TIDE_SHARD_OPTIMIZER; sharding <= TIDE_SHARD_ALL; sharding++)
        for (long good = 0;; good++) {
            struct tide_err err = {{0}, {0}};
            job.sharding = (enum tide_sharding)sharding;
            failing_arm(good);
            int status = tide_forecast_make(&job, TIDE_FULL, &forecast, &err);
            if (!failing_disarm()) {
                assert_int_equal(status, 0);
                break;
            }
            assert_int_equal(status, -1);
            assert_true(err.text[0]);
        }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_requests_share_a_segment_of_two_mebibytes),
        cmocka_unit_test(large_requests_have_segments_of_their_own),
        cmocka_unit_test(what_one_stream_let_go_another_does_not_get),
        cmocka_unit_test(of_free_blocks_of_one_size_the_lowest_is_taken),
        cmocka_unit_test(a_heap_shrinks_from_its_end_alone),
        cmocka_unit_test(sizes_past_every_bound_fail_and_stay_failed),
        cmocka_unit_test(a_graph_holds_what_it_saved_until_it_is_walked),
        cmocka_unit_test(a_model_is_found_by_name_or_suggested),
        cmocka_unit_test(configurations_of_four_families_are_read),
        cmocka_unit_test(configurations_that_make_no_sense_are_refused),
        cmocka_unit_test(jobs_that_do_not_go_together_are_refused),
        cmocka_unit_test(a_job_past_every_bound_is_refused_with_a_sentence),
        cmocka_unit_test(what_saves_memory_saves_memory),
        cmocka_unit_test(what_is_shared_out_is_divided),
        cmocka_unit_test(a_state_is_given_to_one_process_whole),
        cmocka_unit_test(every_model_and_task_can_be_planned),
        cmocka_unit_test(segments_that_are_wholly_free_are_given_back_at_the_limit),
        cmocka_unit_test(the_largest_batch_is_one_number_and_what_fits_agrees_with_it),
        cmocka_unit_test(the_longest_sequence_fits_and_one_more_does_not),
        cmocka_unit_test(nothing_fits_on_a_device_that_is_too_small),
#if HAVE_FAILING_MALLOC
        cmocka_unit_test(a_plan_without_memory_fails_with_a_sentence),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
