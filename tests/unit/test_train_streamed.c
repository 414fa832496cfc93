/*
 * test_train_streamed.c - parameters that stay in their file: the same bits as in memory, no byte more than a
 * window, and a sentence for everything that can happen to a file.
 */
#include "layout_check.h"
#include "lent.h"
#include "failing_malloc.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/threads.h"
#include "rt/op.h"
#include "base/random.h"
#include "train/gpt.h"
#include "train/safetensors.h"
#include "train/streamed.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 2, SEQUENCE = 19 };
#define PREFIX "kept."

static const struct tide_gpt_config config = {.vocabulary = 31,
                                              .positions = 40,
                                              .channels = 24,
                                              .heads = 3,
                                              .blocks = 2,
                                              .hidden = 50,
                                              .epsilon = 1e-5F};

static char folder[] = "/tmp/tidemark-streamed-XXXXXX", path[128];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

/* ---- a file of weights */

struct written {
    const struct tide_graph *graph;
    enum tide_dtype dtype;
    const char *left_out;
    char data[1 << 15];
};

static bool weight_at(void *context, int index, struct tide_safetensor_source *ret_source)
{
    struct written *w = context;
    const struct tide_tensor *t = &w->graph->tensors[index];
    if (t->role != TIDE_PARAMETER || (w->left_out && !strcmp(t->name, w->left_out)))
        return false;
    *ret_source = (struct tide_safetensor_source){.dtype = w->dtype, .rank = t->rank, .data = w->data};
    memcpy(ret_source->dims, t->dims, sizeof t->dims);
    snprintf(ret_source->name, sizeof ret_source->name, "transformer.%s", t->name);
    assert_true((size_t)tide_tensor_count(t) * sizeof(float) <= sizeof w->data);
    for (int64_t i = 0; i < tide_tensor_count(t); i++)
        tide_number_set(w->data, w->dtype, i,
                        0.5 * tide_random_unit(6, (uint64_t)index, (uint64_t)i) -
                            (strstr(t->name, "ln_") ? -0.5 : 0.25));
    return true;
}

static void write_file(const struct tide_graph *graph, enum tide_dtype dtype, const char *left_out)
{
    struct written *w = calloc(1, sizeof *w);
    struct tide_durable file;
    assert_non_null(w);
    unlink(path);
    *w = (struct written){.graph = graph, .dtype = dtype, .left_out = left_out};
    assert_int_equal(tide_durable_open(&file, AT_FDCWD, path), 0);
    tide_safetensors_write(&file, graph->tensor_count, weight_at, NULL, w);
    assert_int_equal(tide_durable_close(&file), 0);
    free(w);
}

/* ---- a model, and the same from its file */

struct model {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_gpt gpt;
    int streamed, loss; /* a program with the nodes of the model whose parameters are streamed; its loss */
    struct tide_plan plan;
    struct tide_machine *machine;
    struct tide_streamed *file;
};

static void add_streamed(struct model *m)
{
    struct tide_graph *g = m->graph;
    const struct tide_program *train = &g->programs[m->gpt.train];
    int same[512];
    assert_true(g->tensor_count <= 512);
    for (int i = 0; i < g->tensor_count; i++)
        same[i] = i;
    m->streamed = tide_graph_program(g, "streamed", false);
    g->streams = true;
    for (int i = train->first, end = train->end; i < end; i++) {
        struct tide_node node = g->nodes[i];
        for (int k = 0; k < node.in_count; k++) {
            struct tide_tensor t = g->tensors[node.in[k]];
            char name[2 * TIDE_TENSOR_NAME];
            snprintf(name, sizeof name, PREFIX "%s", t.name);
            node.in[k] = t.role == TIDE_PARAMETER ? tide_graph_parameter(g, name, true, t.rank, t.dims)
                                                  : same[node.in[k]];
        }
        m->loss = tide_graph_append(g, &node);
        for (int k = 0; k < g->nodes[i].out_count; k++)
            same[g->nodes[i].out[k]] = m->loss + k;
    }
    g->streams = false;
}

/* apart: of so many rows the first has a target. */
static void fill_targets(struct model *m, int apart)
{
    int32_t *targets = tide_machine_input(m->machine, m->gpt.targets);
    for (int i = 0; i < BATCH * SEQUENCE; i++)
        targets[i] = i % apart ? -1 : (i + 1) * (i + 1) % 31;
}

static struct model new_model(enum tide_dtype compute, enum tide_dtype stored)
{
    struct tide_err err;
    struct tide_choices none = {0};
    struct model m = {.graph = tide_graph_new(compute)};
    assert_non_null(m.graph);
    m.graph->stored = stored;
    ok(tide_gpt_build(m.graph, &config, BATCH, SEQUENCE, &m.gpt, &err), &err);
    int64_t *numbers = m.graph->nodes[m.graph->programs[m.gpt.train].end - 1].numbers;
    numbers[0] = 16; /* rows and tokens of a tile: several of each, the last ones smaller */
    numbers[1] = 8;
    add_streamed(&m);
    ok(tide_graph_failed(m.graph, &err), &err);
    m.device = &tide_cpu_device;
    ok(tide_plan_make(m.graph, m.device, &none, &m.plan, &err), &err);
    ok(tide_machine_new(m.graph, m.device, &m.plan, &m.machine, &err), &err);
    int32_t *tokens = tide_machine_input(m.machine, m.gpt.tokens);
    for (int i = 0; i < BATCH * SEQUENCE; i++)
        tokens[i] = i * i % 31;
    fill_targets(&m, 1);
    return m;
}

static void open_file(struct model *m)
{
    struct tide_err err;
    ok(tide_streamed_open(m->graph, PREFIX, path, &m->file, &err), &err);
    tide_machine_source(m->machine, tide_streamed_read, m->file);
}

static void free_model(struct model *m)
{
    tide_streamed_close(m->file);
    tide_machine_free(m->machine);
    tide_graph_free(m->graph);
}

static void read_into_memory(struct model *m)
{
    struct tide_safetensors file;
    struct tide_err err;
    ok(tide_safetensors_open(&file, path, &err), &err);
    for (int i = 0; i < m->graph->tensor_count; i++) {
        const struct tide_tensor *t = &m->graph->tensors[i];
        char name[2 * TIDE_TENSOR_NAME];
        snprintf(name, sizeof name, "transformer.%s", t->name);
        if (t->role == TIDE_PARAMETER)
            ok(tide_safetensors_read(&file, tide_safetensors_find(&file, name), t->dtype, lent(m->machine, i),
                                     &err),
               &err);
    }
    tide_safetensors_close(&file);
}

struct outcome {
    float loss, log_probabilities[BATCH * SEQUENCE];
};

static struct outcome outcome_of(struct model *m, int program, int loss)
{
    struct outcome o;
    assert_int_equal(tide_machine_run(m->machine, program), 0);
    o.loss = *(const float *)tide_machine_result(m->machine, program, loss);
    memcpy(o.log_probabilities, tide_machine_result(m->machine, program, loss + 1),
           sizeof o.log_probabilities);
    return o;
}

static void a_model_from_its_file_gives_the_bits_of_one_in_memory(void **state)
{
    (void)state;
    static const struct {
        enum tide_dtype compute, stored, file;
    } cases[] = {{TIDE_F32, TIDE_F32, TIDE_F32},
                 {TIDE_F32, TIDE_BF16, TIDE_F32},
                 {TIDE_BF16, TIDE_BF16, TIDE_BF16},
                 {TIDE_BF16, TIDE_F32, TIDE_BF16}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        tide_threads_set((int)(i % 3) + 1);
        struct model m = new_model(cases[i / 2].compute, cases[i / 2].stored);
        fill_targets(&m, (int)(i % 2) + 1);
        write_file(m.graph, cases[i / 2].file, NULL);
        read_into_memory(&m);
        open_file(&m);
        struct outcome resident = outcome_of(&m, m.gpt.evaluate, m.gpt.loss);
        for (int again = 0; again < 2; again++) {
            struct outcome streamed = outcome_of(&m, m.streamed, m.loss);
            assert_memory_equal(&streamed, &resident, sizeof resident);
        }
        assert_true(resident.loss > 1 && resident.loss < 10);
        assert_int_equal(tide_streamed_failed(m.file, NULL), 0);
        free_model(&m);
    }
    tide_threads_set(1);
}

/* ---- work */

struct counted {
    struct tide_streamed *file;
    int64_t rows; /* of what was read many rows at a time: not by the embedding */
};

static int count_rows(void *context, int tensor, int64_t first, int64_t rows, void *to)
{
    struct counted *c = context;
    c->rows += rows > 1 ? rows : 0;
    return tide_streamed_read(c->file, tensor, first, rows, to);
}

static int64_t rows_read(struct model *m, int apart)
{
    struct counted c = {.file = m->file};
    fill_targets(m, apart);
    tide_machine_source(m->machine, count_rows, &c);
    assert_int_equal(tide_machine_run(m->machine, m->streamed), 0);
    return c.rows;
}

/* The head reads the table once for each 16 rows that it multiplies. */
static void the_head_multiplies_rows_that_have_a_target(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, TIDE_F32);
    write_file(m.graph, TIDE_F32, NULL);
    open_file(&m);
    int64_t without = rows_read(&m, BATCH * SEQUENCE) - config.vocabulary; /* one row has one */
    assert_int_equal(rows_read(&m, 1) - without, 3 * config.vocabulary);   /* 38 have */
    assert_int_equal(rows_read(&m, 2) - without, 2 * config.vocabulary);   /* 19 */
    assert_int_equal(rows_read(&m, 3) - without, config.vocabulary);       /* 13 */
    free_model(&m);
}

/* ---- memory */

static size_t alive_at(const struct tide_schedule *s, int instruction)
{
    size_t sum = 0;
    for (int i = 0; i < s->value_count; i++)
        if (s->values[i].first <= instruction && instruction <= s->values[i].last)
            sum += tide_aligned(s->values[i].bytes);
    return sum;
}

/* What is alive when the same node runs on parameters in memory, and beside: the windows of parameters, or
 * what an embedding and a head have of a table at a time, a row of 24 and a tile of 8. */
static void windows_are_all_that_a_streamed_program_takes(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, TIDE_F32);
    struct tide_schedule resident, streamed;
    struct tide_layout layout;
    struct tide_err err;
    size_t most = 0, row = 24 * sizeof(float);
    ok(tide_schedule(m.graph, m.gpt.evaluate, m.device, NULL, &resident, &err), &err);
    ok(tide_schedule(m.graph, m.streamed, m.device, NULL, &streamed, &err), &err);
    ok(tide_layout(&streamed, &layout, &err), &err);
    for (int i = 0; i < resident.count; i++) {
        const struct tide_node *node = &m.graph->nodes[resident.instructions[i].node];
        size_t bytes = alive_at(&resident, i);
        for (int k = 0; k < node->in_count; k++)
            if (m.graph->tensors[node->in[k]].role == TIDE_PARAMETER && node->in[k] != m.gpt.token_table)
                bytes += tide_aligned(m.graph->tensors[node->in[k]].bytes);
        bytes += !strcmp(node->op->name, "embed") ? tide_aligned(row) : 0;
        bytes += node->op->is_loss ? tide_aligned(8 * row) : 0;
        most = bytes > most ? bytes : most;
    }
    assert_int_equal(layout.lower_bound, most); /* how well it is packed depends on the processor's scratch */
    ok(layout_check(&streamed, layout.bytes, &err), &err);
    assert_int_equal(m.plan.bytes[TIDE_FROZEN], 0);
    assert_int_equal(m.plan.layouts[m.streamed].bytes, layout.bytes);
    assert_int_equal(tide_machine_high_bytes(m.machine), m.plan.total);
    assert_int_equal(m.graph->parameters, m.graph->trained);
    tide_schedule_release(&resident);
    tide_schedule_release(&streamed);
    free_model(&m);
}

static void streaming_allocates_nothing(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    for (int stored = TIDE_F32; stored <= TIDE_BF16; stored++) {
        struct model m = new_model(TIDE_F32, stored);
        write_file(m.graph, TIDE_F32, NULL);
        open_file(&m);
        failing_arm(0);
        int status = tide_machine_run(m.machine, m.streamed);
        assert_false(failing_disarm());
        assert_int_equal(status, 0);
        free_model(&m);
    }
#else
    skip();
#endif
}

static void a_failed_allocation_is_said(void **state)
{
    (void)state;
#if HAVE_FAILING_MALLOC
    NEEDS_FAILING_MALLOC();
    struct model m = new_model(TIDE_F32, TIDE_F32);
    bool failed = true;
    write_file(m.graph, TIDE_F32, NULL);
    for (long good = 0; failed; good++) {
        struct tide_err err = {0};
        struct tide_streamed *file = NULL;
        failing_arm(good);
        int status = tide_streamed_open(m.graph, PREFIX, path, &file, &err);
        failed = failing_disarm();
        assert_true(status == 0 || (failed && err.text[0]));
        tide_streamed_close(file);
    }
    free_model(&m);
#else
    skip();
#endif
}

/* ---- the checksum */

static uint32_t checksum_of(struct model *m)
{
    struct tide_err err;
    struct tide_streamed *file;
    uint32_t sum;
    ok(tide_streamed_open(m->graph, PREFIX, path, &file, &err), &err);
    ok(tide_streamed_checksum(file, &sum, &err), &err);
    tide_streamed_close(file);
    return sum;
}

static void any_bit_of_the_weights_changes_the_checksum(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, TIDE_F32);
    struct stat info;
    struct tide_err err;
    write_file(m.graph, TIDE_F32, NULL);
    uint32_t first = checksum_of(&m), sum;
    assert_int_equal(stat(path, &info), 0);
    for (off_t back = 1; back <= 2000; back += 333) {
        char byte;
        int fd = open(path, O_RDWR | O_CLOEXEC);
        assert_int_equal(pread(fd, &byte, 1, info.st_size - back), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, info.st_size - back), 1);
        assert_int_not_equal(checksum_of(&m), first);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, info.st_size - back), 1);
        close(fd);
        assert_int_equal(checksum_of(&m), first);
    }
    open_file(&m);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
    assert_int_equal(tide_streamed_checksum(m.file, &sum, &err), -1);
    assert_non_null(strstr(err.text, path));
    free_model(&m);
}

/* ---- what can happen to a file */

static void expect_failure(struct model *m, const char *what)
{
    struct tide_err err = {0};
    assert_int_equal(tide_machine_run(m->machine, m->streamed), -1);
    assert_int_equal(tide_streamed_failed(m->file, &err), -1);
    if (!strstr(err.text, what) || !strstr(err.text, path))
        fail_msg("'%s' instead of '%s'", err.text, what);
    assert_int_equal(tide_machine_run(m->machine, m->gpt.evaluate), 0); /* others run as before */
}

static void a_file_that_becomes_shorter_ends_the_run_with_a_sentence(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, TIDE_F32);
    struct stat info;
    write_file(m.graph, TIDE_F32, NULL);
    open_file(&m);
    assert_int_equal(tide_machine_run(m.machine, m.streamed), 0);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
    expect_failure(&m, "it was changed while it was in use");
    free_model(&m);
}

static void a_file_that_is_written_to_ends_the_run_with_a_sentence(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, TIDE_F32);
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    write_file(m.graph, TIDE_F32, NULL);
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    open_file(&m);
    assert_int_equal(tide_machine_run(m.machine, m.streamed), 0);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "x", 1, 2000), 1);
    close(fd);
    expect_failure(&m, "it was changed while it was in use");
    free_model(&m);
}

/* A new file of the same name is another file; the one that is open goes on. */
static void a_file_that_is_replaced_is_read_as_it_was(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, TIDE_F32);
    write_file(m.graph, TIDE_F32, NULL);
    open_file(&m);
    struct outcome before = outcome_of(&m, m.streamed, m.loss);
    assert_int_equal(unlink(path), 0);
    write_file(m.graph, TIDE_BF16, NULL);
    struct outcome after = outcome_of(&m, m.streamed, m.loss);
    assert_memory_equal(&before, &after, sizeof after);
    free_model(&m);
}

static void expect_refusal(const struct tide_graph *graph, const char *what)
{
    struct tide_err err = {0};
    struct tide_streamed *file;
    assert_int_equal(tide_streamed_open(graph, PREFIX, path, &file, &err), -1);
    if (!strstr(err.text, what))
        fail_msg("'%s' instead of '%s'", err.text, what);
}

static void a_file_of_another_model_is_refused_when_it_is_opened(void **state)
{
    (void)state;
    struct model m = new_model(TIDE_F32, TIDE_F32);
    struct stat info;
    write_file(m.graph, TIDE_F32, "h.1.mlp.c_fc.weight");
    expect_refusal(m.graph,
                   "the model has a tensor 'h.1.mlp.c_fc.weight' (24, 50), which the file does not have");
    write_file(m.graph, TIDE_I32, NULL);
    expect_refusal(m.graph, "has numbers of type I32");
    write_file(m.graph, TIDE_F32, NULL);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
    expect_refusal(m.graph, "safetensors");
    struct tide_gpt_config other = config;
    struct tide_graph *wider = tide_graph_new(TIDE_F32);
    struct tide_gpt gpt;
    struct tide_err err;
    other.hidden++;
    assert_non_null(wider);
    ok(tide_gpt_build(wider, &other, BATCH, SEQUENCE, &gpt, &err), &err);
    write_file(wider, TIDE_F32, NULL);
    expect_refusal(m.graph, "tensor 'h.0.mlp.c_fc.weight' is (24, 50) in the model and (24, 51) in the file");
    assert_int_equal(unlink(path), 0);
    expect_refusal(m.graph, "cannot open");
    write_file(m.graph, TIDE_F32, NULL);
    tide_graph_free(wider);
    free_model(&m);
}

static void a_program_that_trains_cannot_read_what_is_streamed(void **state)
{
    (void)state;
    struct tide_graph *g = tide_graph_new(TIDE_F32);
    struct tide_gpt gpt;
    struct tide_err err = {0};
    assert_non_null(g);
    g->streams = true;
    assert_int_equal(tide_gpt_build(g, &config, BATCH, SEQUENCE, &gpt, &err), -1);
    assert_string_equal(err.text, "embed: 'wte.weight' is streamed, and this program trains");
    tide_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_from_its_file_gives_the_bits_of_one_in_memory),
        cmocka_unit_test(the_head_multiplies_rows_that_have_a_target),
        cmocka_unit_test(windows_are_all_that_a_streamed_program_takes),
        cmocka_unit_test(streaming_allocates_nothing),
        cmocka_unit_test(a_failed_allocation_is_said),
        cmocka_unit_test(any_bit_of_the_weights_changes_the_checksum),
        cmocka_unit_test(a_file_that_becomes_shorter_ends_the_run_with_a_sentence),
        cmocka_unit_test(a_file_that_is_written_to_ends_the_run_with_a_sentence),
        cmocka_unit_test(a_file_that_is_replaced_is_read_as_it_was),
        cmocka_unit_test(a_file_of_another_model_is_refused_when_it_is_opened),
        cmocka_unit_test(a_program_that_trains_cannot_read_what_is_streamed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
