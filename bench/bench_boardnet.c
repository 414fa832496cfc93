/*
 * bench_boardnet.c - how fast a net that plays evaluates a batch of boards, against the best matrix product
 * in the same process.
 *
 * Prints lines "name value"; bench_boardnet.py runs it for each row of its table and compares. Passes and
 * products alternate, so that a machine that is slow for a while is slow for both. --convolution: instead of
 * the net one of its convolutions, forward and by each of the two operands that are large.
 */
#include "base/clock.h"
#include "base/option.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/threads.h"
#include "train/boardnet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct values {
    const char *net, *dtype;
    int64_t batch, board, threads, milliseconds;
    bool convolution;
};

#define FIELD(name) offsetof(struct values, name)
static const struct tide_option options[] = {
    {.name = "net", .kind = TIDE_OPTION_TEXT, .offset = FIELD(net), .arg = "NAME"},
    {.name = "dtype", .kind = TIDE_OPTION_CHOICE, .offset = FIELD(dtype), .arg = "T", .choices = "f32|bf16"},
    {.name = "batch", .kind = TIDE_OPTION_COUNT, .offset = FIELD(batch), .arg = "N", .least = 1},
    {.name = "board", .kind = TIDE_OPTION_COUNT, .offset = FIELD(board), .arg = "N", .least = 5},
    {.name = "threads", .kind = TIDE_OPTION_COUNT, .offset = FIELD(threads), .arg = "N", .least = 1},
    {.name = "milliseconds",
     .kind = TIDE_OPTION_COUNT,
     .offset = FIELD(milliseconds),
     .arg = "N",
     .least = 1},
    {.name = "convolution", .kind = TIDE_OPTION_FLAG, .offset = FIELD(convolution)},
    {0},
};

static double seconds_since(int64_t begin)
{
    return (double)(tide_clock_ns() - begin) / TIDE_NS_PER_S;
}

static int64_t end_of(const struct values *v)
{
    return tide_clock_ns() + v->milliseconds * 1000000;
}

static void print_peak(enum tide_dtype dtype)
{
    printf("peak_gflops %.1f\n", tide_matmul_peak(dtype) / 1e9);
}

/* ---- the net as it plays */

/* Of what a pass computes. */
static double flops_of(const struct tide_graph *graph, int program)
{
    double flops = 0;
    for (int i = graph->programs[program].first; i < graph->programs[program].end; i++)
        flops += tide_node_work(graph, &graph->nodes[i]);
    return flops;
}

static void time_passes(const struct values *v, struct tide_machine *machine,
                        const struct tide_boardnet_player *player)
{
    enum { WARM = 2, PASSES = 4 };
    for (int i = 0; i < WARM; i++)
        tide_machine_run(machine, player->program);
    for (int64_t end = end_of(v); tide_clock_ns() < end;) {
        print_peak(TIDE_F32);
        for (int i = 0; i < PASSES; i++) {
            int64_t begin = tide_clock_ns();
            tide_machine_run(machine, player->program);
            printf("forward_seconds %.6f\n", seconds_since(begin));
        }
    }
}

static int bench_net(const struct values *v, const struct tide_boardnet_config *config, struct tide_err *err)
{
    struct tide_graph *graph = tide_graph_new(TIDE_F32);
    struct tide_machine *machine = NULL;
    struct tide_boardnet_player player;
    struct tide_plan plan;
    int status = -1;
    if (!graph)
        return tide_err_set(err, "out of memory");
    if (tide_boardnet_build_player(graph, config, "", v->batch, &player, err) ||
        tide_plan_make(graph, &tide_cpu_device, &(struct tide_choices){0}, &plan, err) ||
        tide_machine_new(graph, &tide_cpu_device, &plan, &machine, err) ||
        tide_boardnet_initial(graph, machine, 1, err))
        goto release;
    float *planes = tide_machine_input(machine, player.planes);
    for (int64_t i = 0; i < tide_tensor_count(&graph->tensors[player.planes]); i++)
        planes[i] = i * 7 % 11 < 3;
    printf("forward_gflop %.6f\n", flops_of(graph, player.program) / 1e9);
    time_passes(v, machine, &player);
    status = 0;
release:
    tide_machine_free(machine);
    tide_graph_free(graph);
    return status;
}

/* ---- one of its convolutions */

/* Numbers in large pages, as the arena of a run has. */
static void *numbers(size_t bytes, enum tide_dtype dtype)
{
    enum { PAGE = 2 << 20 };
    size_t whole = (bytes / PAGE + 1) * PAGE;
    void *room = aligned_alloc(PAGE, whole);
    if (!room)
        return NULL;
    madvise(room, whole, MADV_HUGEPAGE);
    for (int64_t i = 0; i < (int64_t)(whole / tide_dtype_bytes(dtype)); i++)
        tide_number_set(room, dtype, i, (double)(i % 97) / 97 - 0.5);
    return room;
}

static void time_convolution(const struct values *v, const struct tide_call *call)
{
    static const char *const names[] = {"forward", "by_x", "by_weight"};
    const struct tide_cpu_kernels *kernels = tide_cpu_kernels(call->node->op);
    double flops = tide_node_work(call->graph, call->node);
    for (int64_t end = end_of(v); tide_clock_ns() < end;) {
        print_peak(call->graph->compute);
        for (int i = 0; i < 3; i++) {
            struct tide_call one = *call;
            for (int k = 0; k < 3; k++)
                one.in_grad[k] = k == i - 1 ? call->in_grad[k] : NULL;
            int64_t begin = tide_clock_ns();
            (i ? kernels->backward : kernels->forward)(&one);
            printf("%s_gflops %.1f\n", names[i], flops / seconds_since(begin) / 1e9);
        }
    }
}

static int bench_convolution(const struct values *v, const struct tide_boardnet_config *config,
                             struct tide_err *err)
{
    enum tide_dtype dtype = strcmp(v->dtype, "bf16") ? TIDE_F32 : TIDE_BF16;
    int64_t C = config->channels, x_dims[2] = {v->batch * v->board * v->board, C}, dims[2] = {9 * C, C};
    struct tide_graph *graph = tide_graph_new(dtype);
    if (!graph)
        return tide_err_set(err, "out of memory");
    tide_graph_program(graph, "convolution", false);
    int x = tide_graph_tensor(graph, "x", TIDE_INPUT, dtype, 2, x_dims),
        weight = tide_graph_parameter(graph, "weight", true, 2, dims);
    tide_op_conv(graph, x, weight, -1, v->board, v->board);
    if (tide_graph_failed(graph, err)) {
        tide_graph_free(graph);
        return -1;
    }
    const struct tide_node *node = &graph->nodes[0];
    size_t there = tide_cpu_scratch(&(struct tide_need){graph, node, TIDE_FORWARD, 0}),
           back = tide_cpu_scratch(&(struct tide_need){graph, node, TIDE_BACKWARD, 0}),
           y_bytes = graph->tensors[node->out[0]].bytes;
    struct tide_call call = {.graph = graph, .node = node};
    bool is_there = (call.scratch = numbers(there > back ? there : back, TIDE_F32)) &&
                    (call.out[0] = numbers(y_bytes, dtype)) && (call.out_grad[0] = numbers(y_bytes, dtype));
    for (int i = 0; is_there && i < 2; i++) {
        const struct tide_tensor *t = &graph->tensors[node->in[i]];
        is_there =
            (call.in[i] = numbers(t->bytes, t->dtype)) && (call.in_grad[i] = numbers(t->bytes, t->dtype));
    }
    if (is_there)
        time_convolution(v, &call);
    for (int i = 0; i < 2; i++) {
        free((void *)call.in[i]);
        free(call.in_grad[i]);
    }
    free(call.scratch);
    free(call.out[0]);
    free((void *)call.out_grad[0]);
    tide_graph_free(graph);
    return is_there ? 0 : tide_err_set(err, "out of memory");
}

int main(int argc, char **argv)
{
    struct values v = {
        .net = "10x96", .dtype = "f32", .batch = 64, .board = 15, .threads = 2, .milliseconds = 3000};
    struct tide_err err = {0};
    struct tide_boardnet_config config;
    struct tide_game game;
    char **operands = NULL;
    int count = 0, dashes;
    if (tide_options_parse(options, 0, argc, argv, &v, &operands, &count, &dashes, &err) || count ||
        tide_game_of("gomoku", (int)v.board, false, &game, &err) ||
        tide_boardnet_preset(v.net, &game, &config, &err)) {
        fprintf(stderr, "bench_boardnet: %s\n", err.text);
        return 2;
    }
    tide_threads_set((int)v.threads);
    int status = (v.convolution ? bench_convolution : bench_net)(&v, &config, &err);
    if (status)
        fprintf(stderr, "bench_boardnet: %s\n", err.text);
    return status ? 2 : 0;
}
