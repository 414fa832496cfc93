/*
 * bench_generate.c - how fast tokens are generated from a KV cache, beside what memory allows.
 *
 * Prints lines "name value"; bench_generate.py makes a table of them. Each token of every slot reads all
 * weights once, so that no decoder is faster than memory: "read_seconds" is what threads need that only read
 * as many bytes as the weights have, "next_seconds" what a token of all slots takes, drawn at temperature 1
 * from the whole vocabulary; rounds of both alternate. Sequences go from the end of the prompt to their full
 * length, as in use. "first_seconds" is the first token, for which the prompt is read once and copied.
 */
#include "base/option.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/threads.h"
#include "train/config.h"
#include "train/rollout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct values {
    const char *preset, *dtype, *weights;
    int64_t slots, prompt, tokens, threads;
};

#define FIELD(name) offsetof(struct values, name)
static const struct tide_option options[] = {
    {.name = "preset", .kind = TIDE_OPTION_TEXT, .offset = FIELD(preset), .arg = "NAME"},
    {.name = "dtype", .kind = TIDE_OPTION_CHOICE, .offset = FIELD(dtype), .arg = "T", .choices = "f32|bf16"},
    {.name = "weights",
     .kind = TIDE_OPTION_CHOICE,
     .offset = FIELD(weights),
     .arg = "T",
     .choices = "f32|bf16|int8"},
    {.name = "slots", .kind = TIDE_OPTION_COUNT, .offset = FIELD(slots), .arg = "N", .least = 1},
    {.name = "prompt", .kind = TIDE_OPTION_COUNT, .offset = FIELD(prompt), .arg = "N", .least = 1},
    {.name = "tokens", .kind = TIDE_OPTION_COUNT, .offset = FIELD(tokens), .arg = "N", .least = 1},
    {.name = "threads", .kind = TIDE_OPTION_COUNT, .offset = FIELD(threads), .arg = "N", .least = 1},
    {0},
};

static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- reading */

TIDE_KERNEL(float, sum_of, (const float *x, int64_t count), (x, count))
{
    float lanes[64] = {0}, sum = 0;
    for (int64_t i = 0; i + 64 <= count; i += 64)
        for (int k = 0; k < 64; k++)
            lanes[k] += x[i + k];
    for (int k = 0; k < 64; k++)
        sum += lanes[k];
    return sum;
}

struct reading {
    const float *data;
    float sums[TIDE_THREADS_MOST];
};

static void read_some(void *context, int64_t first, int64_t last)
{
    enum { PIECE = 1 << 14 };
    struct reading *r = context;
    for (; first < last; first++)
        r->sums[tide_thread()] += sum_of(r->data + first * PIECE, PIECE);
}

static double read_seconds(struct reading *r, size_t bytes)
{
    double start = wall();
    tide_parallel((int64_t)(bytes / sizeof(float) >> 14), 1, read_some, r);
    return wall() - start;
}

/* ---- the model */

struct bench {
    struct values values;
    struct tide_gpt_config config;
    struct tide_graph *graph;
    struct tide_gpt_decoder decoder;
    struct tide_plan plan;
    struct tide_machine *machine;
};

static int make(struct bench *b, struct tide_err *err)
{
    struct tide_choices none = {0};
    const struct values *v = &b->values;
    if (tide_config_preset(v->preset, &b->config, err))
        return -1;
    b->config.vocabulary = b->config.vocabulary ? b->config.vocabulary : 256;
    b->graph = tide_graph_new(strcmp(v->dtype, "bf16") ? TIDE_F32 : TIDE_BF16);
    if (!b->graph)
        return tide_err_set(err, "out of memory");
    b->graph->stored = !strcmp(v->weights, "int8")   ? TIDE_I8
                       : !strcmp(v->weights, "bf16") ? TIDE_BF16
                                                     : TIDE_F32;
    b->graph->freezes = true;
    return tide_gpt_build_decoder(b->graph, &b->config, v->slots, v->prompt + v->tokens, &b->decoder, err) ||
                   tide_plan_make(b->graph, &tide_cpu_device, &none, &b->plan, err) ||
                   tide_machine_new(b->graph, &tide_cpu_device, &b->plan, &b->machine, err)
               ? -1
               : 0;
}

static int run(struct bench *b, struct tide_err *err)
{
    const struct values *v = &b->values;
    size_t bytes = b->plan.bytes[TIDE_FROZEN];
    int32_t *tokens = calloc((size_t)v->prompt, sizeof *tokens);
    struct reading r = {.data = malloc(bytes)};
    struct tide_rollout *rollout = NULL;
    if (!tokens || !r.data)
        exit(1);
    memset((void *)r.data, 1, bytes); /* not 0, for which no memory would be there */
    printf("weight_bytes %zu\nplan_bytes %zu\n", bytes, b->plan.total);
    struct tide_rollout_prompt prompt = {tokens, v->prompt};
    struct tide_rollout_request request = {.prompts = &prompt,
                                           .prompt_count = 1,
                                           .group = v->slots,
                                           .new_tokens = v->tokens,
                                           .end = -1,
                                           .rule = {.temperature = 1, .top_p = 1}};
    int more = tide_rollout_new(&b->config, &b->decoder, b->machine, v->slots, v->tokens, &rollout, err) ||
                       tide_rollout_start(rollout, &request, err)
                   ? -1
                   : 1;
    for (int64_t i = 0; more > 0; i++) {
        printf("read_seconds %.9f\n", read_seconds(&r, bytes));
        double start = wall();
        more = tide_rollout_next(rollout, err);
        printf("%s_seconds %.9f\n", i ? "next" : "first", wall() - start);
    }
    tide_rollout_free(rollout);
    free(tokens);
    free((void *)r.data);
    return more;
}

int main(int argc, char **argv)
{
    struct bench b = {.values = {.preset = "gpt2",
                                 .dtype = "f32",
                                 .weights = "f32",
                                 .slots = 8,
                                 .prompt = 30,
                                 .tokens = 144,
                                 .threads = 2}};
    struct tide_err err = {0};
    char **operands;
    int count, dashes;
    if (tide_options_parse(options, 0, argc, argv, &b.values, &operands, &count, &dashes, &err)) {
        fprintf(stderr, "bench_generate: %s\n", err.text);
        return 2;
    }
    tide_threads_set((int)b.values.threads);
    int status = make(&b, &err) || run(&b, &err);
    if (status)
        fprintf(stderr, "bench_generate: %s\n", err.text);
    tide_machine_free(b.machine);
    tide_graph_free(b.graph);
    return status ? 1 : 0;
}
