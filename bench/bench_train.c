/*
 * bench_train.c - how fast a training step is, against products alone in the same process.
 *
 * Prints lines "name value"; bench_train.py runs it for each row of its table and compares. One line per
 * step and, with --peak, per product and round: rounds of products and steps alternate, so that a machine
 * that is slow for a while is slow for both. "ceiling_gflops" is what a thread reaches that only multiplies
 * registers, measured in the same rounds.
 *
 * --profile: a table of what each kind of instruction takes instead. On one thread that is CPU time, which
 * neighbours do not disturb.
 */
#include "base/clock.h"
#include "base/option.h"
#include "rt/machine.h"
#include "rt/cpu/processor.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/threads.h"
#include "rt/cpu/tile.h"
#include "train/config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct values {
    const char *preset, *dtype;
    int64_t batch, sequence, again, blocks, spared, budget, steps, rounds, threads;
    bool fused, peak, products, profile;
};

#define FIELD(name) offsetof(struct values, name)
static const struct tide_option options[] = {
    {.name = "preset", .kind = TIDE_OPTION_TEXT, .offset = FIELD(preset), .arg = "NAME"},
    {.name = "dtype", .kind = TIDE_OPTION_CHOICE, .offset = FIELD(dtype), .arg = "T", .choices = "f32|bf16"},
    {.name = "batch", .kind = TIDE_OPTION_COUNT, .offset = FIELD(batch), .arg = "N", .least = 1},
    {.name = "seq", .kind = TIDE_OPTION_COUNT, .offset = FIELD(sequence), .arg = "N", .least = 1},
    {.name = "again", .kind = TIDE_OPTION_COUNT, .offset = FIELD(again), .arg = "BLOCKS"},
    {.name = "blocks", .kind = TIDE_OPTION_COUNT, .offset = FIELD(blocks), .arg = "N"}, /* for a quick look */
    {.name = "spared", .kind = TIDE_OPTION_COUNT, .offset = FIELD(spared), .arg = "QUARTERS"},
    {.name = "fused", .kind = TIDE_OPTION_FLAG, .offset = FIELD(fused)},
    {.name = "budget", .kind = TIDE_OPTION_SIZE, .offset = FIELD(budget), .arg = "SIZE"},
    {.name = "steps", .kind = TIDE_OPTION_COUNT, .offset = FIELD(steps), .arg = "N", .least = 1},
    {.name = "rounds", .kind = TIDE_OPTION_COUNT, .offset = FIELD(rounds), .arg = "N", .least = 1},
    {.name = "threads", .kind = TIDE_OPTION_COUNT, .offset = FIELD(threads), .arg = "N", .least = 1},
    {.name = "peak", .kind = TIDE_OPTION_FLAG, .offset = FIELD(peak)},
    {.name = "products", .kind = TIDE_OPTION_FLAG, .offset = FIELD(products)}, /* and no steps */
    {.name = "profile", .kind = TIDE_OPTION_FLAG, .offset = FIELD(profile)},
    {0},
};

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double wall(void)
{
    return now(CLOCK_MONOTONIC);
}

/* ---- the model */

struct bench {
    struct values values;
    struct tide_gpt_config config;
    struct tide_graph *graph;
    struct tide_gpt gpt;
    struct tide_plan plan;
    struct tide_machine *machine;
    int64_t step;
};

static int choose(struct bench *b, struct tide_err *err)
{
    struct tide_plan least;
    struct tide_choices choices = {(int)b->values.again, b->values.fused, true, (int)b->values.spared};
    if (b->values.budget)
        return tide_plan_choose(b->graph, &tide_cpu_device, (size_t)b->values.budget, 1, true, &b->plan,
                                &least, err);
    return tide_plan_make(b->graph, &tide_cpu_device, &choices, &b->plan, err);
}

static int make(struct bench *b, struct tide_err *err)
{
    if (tide_config_preset(b->values.preset, &b->config, err))
        return -1;
    if (!b->config.vocabulary)
        b->config.vocabulary = 96; /* printable characters */
    if (b->values.blocks)
        b->config.blocks = b->values.blocks;
    b->graph = tide_graph_new(strcmp(b->values.dtype, "bf16") ? TIDE_F32 : TIDE_BF16);
    if (!b->graph)
        return tide_err_set(err, "out of memory");
    if (tide_gpt_build(b->graph, &b->config, b->values.batch, b->values.sequence, &b->gpt, err))
        return -1;
    if (b->values.products)
        return 0;
    return choose(b, err) || tide_machine_new(b->graph, &tide_cpu_device, &b->plan, &b->machine, err) ? -1
                                                                                                      : 0;
}

static void release(struct bench *b)
{
    tide_machine_free(b->machine);
    tide_graph_free(b->graph);
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void fill(float *to, int64_t count, float spread, uint64_t *state)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = ((float)(next(state) >> 40) / 16777216.0F - 0.5F) * spread;
}

static void fill_model(struct bench *b)
{
    uint64_t state = 88172645463325252ULL;
    for (int i = 0; i < b->graph->tensor_count; i++) {
        const struct tide_tensor *t = &b->graph->tensors[i];
        if (t->role != TIDE_PARAMETER)
            continue;
        float *to = tide_machine_lend(b->machine, tide_machine_place(b->machine, i));
        if (t->rank == 2)
            fill(to, tide_tensor_count(t), 0.07F, &state);
        else
            for (int64_t k = 0; k < t->dims[0]; k++)
                to[k] = strstr(t->name, "bias") ? 0.0F : 1.0F;
    }
    int32_t *tokens = tide_machine_input(b->machine, b->gpt.tokens);
    int32_t *targets = tide_machine_input(b->machine, b->gpt.targets);
    int64_t count = b->values.batch * b->values.sequence;
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(next(&state) % (uint64_t)b->config.vocabulary);
    for (int64_t i = 0; i < count; i++)
        targets[i] = tokens[(i + 1) % count];
}

static float step(struct bench *b)
{
    struct tide_update_rule rule = {.step = {.rate = 1e-4F,
                                             .beta1 = 0.9F,
                                             .beta2 = 0.95F,
                                             .epsilon = 1e-8F,
                                             .decay = 0.1F,
                                             .step = ++b->step},
                                    .clip = 1.0F,
                                    .micro_batches = 1};
    float loss = tide_machine_pass(b->machine, 0, &rule);
    tide_machine_update(b->machine, &rule);
    return loss;
}

static double step_flops(const struct bench *b)
{
    return 6.0 * (double)b->graph->parameters * (double)(b->values.batch * b->values.sequence);
}

/* ---- how far apart two threads are */

enum { ROUND_TRIPS = 5000 };

struct reach {
    _Alignas(128) atomic_int turn;
    double least;
};

static void go_back_and_forth(void *context, int64_t first, int64_t last)
{
    struct reach *r = context;
    (void)last;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        double start = wall();
        if (first == 0)
            atomic_store(&r->turn, 2 * i + 1);
        while (atomic_load(&r->turn) < 2 * i + 1 + (first == 0))
            ;
        if (first == 1)
            atomic_store(&r->turn, 2 * i + 2);
        double took = wall() - start;
        if (first == 0 && took < r->least)
            r->least = took;
    }
}

/* The shortest time in which a line of memory goes to another thread and comes back: below about 120 ns
 * processors share a cache. Where a virtual machine's processors run is for its host to say, and it changes.
 */
static double reach_ns(void)
{
    static struct reach r;
    r.least = 1;
    tide_parallel(2, 1, go_back_and_forth, &r);
    return r.least * 1e9;
}

/* ---- products alone at this model's shapes */

enum { SHAPES = 12, TRIES = 2 };

struct peak {
    struct tide_product products[SHAPES];
    float *a, *b, *c;
    char *scratch;
};

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* As the arena of a run has. */
static void *large_pages(size_t bytes)
{
    enum { PAGE = 2 << 20 };
    size_t whole = (bytes / PAGE + 1) * PAGE;
    void *room = aligned_alloc(PAGE, whole);
    if (room)
        madvise(room, whole, MADV_HUGEPAGE);
    return room;
}

static int peak_init(struct peak *p, const struct bench *b, struct tide_err *err)
{
    int64_t rows = b->values.batch * b->values.sequence, C = b->config.channels, H = b->config.hidden;
    const int64_t in[4] = {C, C, C, H}, out[4] = {3 * C, C, H, C};
    size_t bytes = 0, scratch = 0;
    *p = (struct peak){0};
    for (int i = 0; i < 4; i++) {
        enum tide_dtype d = b->graph->compute;
        p->products[3 * i] = tide_product(rows, out[i], in[i], false, false, d, d);
        p->products[3 * i + 1] = tide_product(rows, in[i], out[i], false, true, d, d);
        p->products[3 * i + 2] = tide_product(in[i], out[i], rows, true, false, d, TIDE_F32);
    }
    for (int i = 0; i < SHAPES; i++) {
        const struct tide_product *x = &p->products[i];
        scratch = most(scratch, tide_matmul_scratch(x));
        bytes = most(bytes, 4 * (size_t)most((size_t)(x->m * x->n),
                                             most((size_t)(x->m * x->k), (size_t)(x->k * x->n))));
    }
    p->a = large_pages(bytes);
    p->b = large_pages(bytes);
    p->c = large_pages(bytes);
    p->scratch = large_pages(scratch);
    if (!p->a || !p->b || !p->c || !p->scratch)
        return tide_err_set(err, "out of memory");
    uint64_t state = 1;
    fill(p->a, (int64_t)(bytes / 4), 1, &state);
    fill(p->b, (int64_t)(bytes / 4), 1, &state);
    memset(p->c, 0, bytes);
    memset(p->scratch, 0, scratch);
    return 0;
}

static void peak_release(struct peak *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->scratch);
}

static double rate_of(struct peak *p, int which, clockid_t clock)
{
    const struct tide_product *x = &p->products[which];
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        double start = now(clock);
        tide_matmul(x, &(struct tide_operands){.a = p->a, .b = p->b, .c = p->c}, p->scratch);
        double rate = 2.0 * (double)x->m * (double)x->n * (double)x->k / (now(clock) - start) / 1e9;
        best = rate > best ? rate : best;
    }
    return best;
}

/* What threads reach together that only multiply registers, in the way that products of that type do. */
static double ceilings[TIDE_THREADS_MOST];

static void measure_ceiling(void *context, int64_t first, int64_t last)
{
    const struct tide_tile_kind *kind = context;
    enum tide_multiplier multiplier = kind == &tide_tile_amx           ? TIDE_MULTIPLIES_TILES
                                      : kind == &tide_tile_avx512_bf16 ? TIDE_MULTIPLIES_BF16
                                                                       : TIDE_MULTIPLIES_F32;
    (void)first, (void)last;
    ceilings[tide_thread()] = tide_processor_ceiling(tide_isa(), multiplier);
}

static double ceiling_of(enum tide_dtype dtype)
{
    double sum = 0;
    tide_parallel(tide_threads(), 1, measure_ceiling, (void *)tide_tile_kind(dtype));
    for (int i = 0; i < tide_threads(); i++)
        sum += ceilings[i];
    return sum;
}

static void peak_round(struct peak *p, clockid_t clock)
{
    printf("ceiling_gflops %.2f\n", ceiling_of(p->products[0].from) / 1e9);
    for (int i = 0; i < SHAPES; i++) {
        const struct tide_product *x = &p->products[i];
        printf("product_%" PRId64 "x%" PRId64 "x%" PRId64 "_%d_gflops %.2f\n", x->m, x->n, x->k, i,
               rate_of(p, i, clock));
    }
}

/* ---- what takes how long */

enum { KINDS = 64, INSTRUCTIONS = 4096 };

struct kind {
    char name[48];
    int64_t count;
    double seconds, least, flops; /* least: the sum of each instruction's shortest */
};

struct profile {
    const struct tide_graph *graph;
    struct kind kinds[KINDS];
    int count;
    double shortest[INSTRUCTIONS];
    int kind_of[INSTRUCTIONS], at, most;
    double last;
    clockid_t clock;
};

static struct kind *kind_named(struct profile *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (!strcmp(p->kinds[i].name, name))
            return &p->kinds[i];
    struct kind *added = &p->kinds[p->count < KINDS - 1 ? p->count++ : KINDS - 1];
    snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

static void watch(void *context, enum tide_action action, const struct tide_node *node)
{
    static const char *const words[] = {"forward", "again", "back", "copy", "measure", "update"};
    struct profile *p = context;
    double at = now(p->clock);
    char name[48];
    if (node)
        snprintf(name, sizeof name, "%s %" PRId64 " %s", node->op->name,
                 tide_tensor_columns(&p->graph->tensors[node->out[0]]), words[action]);
    else
        snprintf(name, sizeof name, "%s", words[action]);
    struct kind *k = kind_named(p, name);
    double took = at - p->last;
    k->count++;
    k->seconds += took;
    if (p->at < INSTRUCTIONS) {
        if (p->at == p->most)
            p->shortest[p->most++] = took;
        p->shortest[p->at] = took < p->shortest[p->at] ? took : p->shortest[p->at];
        p->kind_of[p->at++] = (int)(k - p->kinds);
    }
    if (node)
        k->flops += tide_node_work(p->graph, node) * (node->op->is_loss             ? 3
                                                      : action == TIDE_RUN_BACKWARD ? 2
                                                                                    : 1);
    p->last = now(p->clock);
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct kind *)a)->least, y = ((const struct kind *)b)->least;
    return (x < y) - (x > y);
}

static void show_profile(struct profile *p, int64_t steps, double best)
{
    double all = 0, least = 0;
    for (int i = 0; i < p->count; i++)
        all += p->kinds[i].seconds;
    for (int i = 0; i < p->most; i++) {
        p->kinds[p->kind_of[i]].least += p->shortest[i];
        least += p->shortest[i];
    }
    qsort(p->kinds, (size_t)p->count, sizeof *p->kinds, by_seconds);
    printf("%-26s %8s %10s %10s %7s %9s\n", "per step", "times", "mean ms", "least ms", "share", "GFLOP/s");
    for (int i = 0; i < p->count; i++) {
        const struct kind *k = &p->kinds[i];
        printf("%-26s %8.0f %10.3f %10.3f %6.1f%% %9.1f\n", k->name, (double)k->count / (double)steps,
               k->seconds / (double)steps * 1e3, k->least * 1e3, 100 * k->least / least,
               k->least > 0 ? k->flops / (double)steps / k->least / 1e9 : 0);
    }
    printf("%-26s %8s %10.3f %10.3f  best step %.3f ms\n", "all", "", all / (double)steps * 1e3, least * 1e3,
           best * 1e3);
}

static void run_profile(struct bench *b, clockid_t clock)
{
    static struct profile p;
    double best = 1e30;
    p.graph = b->graph;
    p.clock = clock;
    step(b);
    tide_machine_watch(b->machine, watch, &p);
    for (int64_t i = 0; i < b->values.steps; i++) {
        p.at = 0;
        p.last = now(clock);
        double start = p.last;
        step(b);
        double took = now(clock) - start;
        best = took < best ? took : best;
    }
    show_profile(&p, b->values.steps, best);
}

static int run_rounds(struct bench *b, clockid_t clock, struct tide_err *err)
{
    struct peak peak = {0};
    if (b->values.peak && peak_init(&peak, b, err)) {
        peak_release(&peak);
        return -1;
    }
    for (int64_t round = 0; round < b->values.rounds; round++) {
        if (b->values.peak)
            peak_round(&peak, clock);
        if (b->values.products)
            continue;
        double start = now(clock);
        float loss = 0;
        for (int64_t i = 0; i < b->values.steps; i++)
            loss = step(b);
        printf("step_seconds %.9f\nloss %.6f\n", (now(clock) - start) / (double)b->values.steps,
               (double)loss);
        fflush(stdout);
    }
    if (b->values.peak)
        peak_round(&peak, clock);
    peak_release(&peak);
    return 0;
}

int main(int argc, char **argv)
{
    double start = wall();
    struct bench b = {.values = {.preset = "gpt2",
                                 .dtype = "f32",
                                 .batch = 8,
                                 .sequence = 174,
                                 .steps = 1,
                                 .rounds = 3,
                                 .threads = 2}};
    struct tide_err err = {0};
    char **operands;
    int count, dashes;
    if (tide_options_parse(options, 0, argc, argv, &b.values, &operands, &count, &dashes, &err)) {
        fprintf(stderr, "bench_train: %s\n", err.text);
        return 2;
    }
    tide_threads_set((int)b.values.threads);
    /* One thread: time of the processor, which neighbours do not stretch. */
    clockid_t clock = b.values.threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    int bad = make(&b, &err);
    if (!bad && b.values.products) {
        b.values.peak = true;
        bad = run_rounds(&b, clock, &err);
    } else if (!bad) {
        fill_model(&b);
        printf("ready_seconds %.3f\nplan_bytes %zu\nparameters %" PRId64 "\nstep_flops %.0f\n",
               wall() - start, b.plan.total, b.graph->parameters, step_flops(&b));
        if (tide_threads() > 1)
            printf("reach_ns %.0f\n", reach_ns());
        start = wall();
        step(&b);
        printf("first_step_seconds %.3f\n", wall() - start);
        if (b.values.profile)
            run_profile(&b, clock);
        else
            bad = run_rounds(&b, clock, &err);
    }
    if (bad)
        fprintf(stderr, "bench_train: %s\n", err.text);
    release(&b);
    return bad ? 2 : 0;
}
