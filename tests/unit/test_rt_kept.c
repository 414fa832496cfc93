/*
 * test_rt_kept.c - what an operator keeps (op.h): weights with a norm folded in are made once for programs of
 * any batch, and again when they may have changed, or when another program has had their memory.
 */
#include "lent.h"
#include "rt/cpu/cpu_device.h"
#include "rt/op.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>

enum { IN = 24, OUT = 40, BATCHES = 2 };

struct net {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_machine *machine;
    int weight, programs[BATCHES], y[BATCHES];
    int other, planes; /* a program that keeps nothing, and its input */
    struct tide_batchnorm norm;
};

static int input(struct tide_graph *graph, const char *name, int64_t rows, int64_t columns)
{
    int64_t dims[2] = {rows, columns};
    return tide_graph_tensor(graph, name, TIDE_INPUT, TIDE_F32, 2, dims);
}

static void build(struct net *n)
{
    static const int64_t rows[BATCHES] = {1, 3};
    int64_t dims[2] = {IN, OUT}, out = OUT;
    n->weight = tide_graph_parameter(n->graph, "weight", true, 2, dims);
    n->norm = (struct tide_batchnorm){.weight = tide_graph_parameter(n->graph, "scale", false, 1, &out),
                                      .bias = tide_graph_parameter(n->graph, "shift", false, 1, &out),
                                      .mean = tide_graph_measured(n->graph, "mean", out),
                                      .variance = tide_graph_measured(n->graph, "variance", out),
                                      .epsilon = 1e-5F};
    for (int i = 0; i < BATCHES; i++) {
        n->programs[i] = tide_graph_program(n->graph, "play", false);
        int x = input(n->graph, "x", rows[i], IN),
            folded = tide_op_fold(n->graph, n->weight, &n->norm, false);
        n->y[i] = tide_graph_result(n->graph, tide_op_linear(n->graph, x, folded, folded + 1, true));
    }
    n->other = tide_graph_program(n->graph, "other", false);
    n->planes = input(n->graph, "planes", 100, 100);
    tide_graph_result(n->graph, tide_op_relu(n->graph, n->planes));
}

static struct net set_up(void)
{
    struct net n = {.graph = tide_graph_new(TIDE_F32), .device = &tide_cpu_device};
    struct tide_plan plan;
    struct tide_err err;
    build(&n);
    if (tide_graph_failed(n.graph, &err) ||
        tide_plan_make(n.graph, n.device, &(struct tide_choices){0}, &plan, &err) ||
        tide_machine_new(n.graph, n.device, &plan, &n.machine, &err))
        fail_msg("%s", err.text);
    int filled[] = {n.weight, n.norm.weight, n.norm.bias, n.norm.mean, n.norm.variance};
    for (int i = 0; i < 5; i++)
        for (int64_t k = 0; k < tide_tensor_count(&n.graph->tensors[filled[i]]); k++)
            ((float *)lent(n.machine, filled[i]))[k] = 0.5F + (float)((k * 7 + i) % 11) / 11;
    return n;
}

static void tear_down(struct net *n)
{
    tide_machine_free(n->machine);
    tide_graph_free(n->graph);
}

/* Of its first row, in which x is 0: the folded bias. */
static float said(const struct net *n, int which)
{
    tide_machine_run(n->machine, n->programs[which]);
    return *(const float *)tide_machine_result(n->machine, n->programs[which], n->y[which]);
}

/* Something in all of what is kept that nobody computes. */
static void spoil(struct net *n)
{
    static const float none = NAN;
    const struct tide_node *fold = &n->graph->nodes[0];
    for (int i = 0; i < fold->out_count; i++)
        for (size_t at = 0; at < n->graph->tensors[fold->out[i]].bytes; at += sizeof none)
            tide_machine_write(n->machine, tide_machine_place(n->machine, fold->out[i]) + at, &none,
                               sizeof none);
}

static void weights_are_folded_once_for_all_batches(void **state)
{
    (void)state;
    struct net n = set_up();
    assert_true(isfinite(said(&n, 0)));
    spoil(&n);
    assert_true(isnan(said(&n, 1)));
    assert_true(isnan(said(&n, 0)));
    tear_down(&n);
}

static void weights_are_folded_again_when_they_may_have_changed(void **state)
{
    (void)state;
    struct net n = set_up();
    size_t place = tide_machine_place(n.machine, n.weight);
    float first = said(&n, 0), weight;
    tide_machine_read(n.machine, place, &weight, sizeof weight);
    spoil(&n);
    tide_machine_write(n.machine, place, &weight, sizeof weight);
    assert_true(said(&n, 1) == first);
    *(float *)lent(n.machine, n.norm.bias) += 1;
    assert_true(fabsf(said(&n, 0) - first - 1) < 1e-5F);
    tear_down(&n);
}

/* One that uses no states has the memory of all of them. */
static void weights_are_folded_again_after_another_program(void **state)
{
    (void)state;
    struct net n = set_up();
    float first = said(&n, 0), *planes = tide_machine_input(n.machine, n.planes);
    for (int64_t i = 0; i < tide_tensor_count(&n.graph->tensors[n.planes]); i++)
        planes[i] = 1000;
    tide_machine_run(n.machine, n.other);
    assert_true(said(&n, 0) == first);
    tear_down(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_folded_once_for_all_batches),
        cmocka_unit_test(weights_are_folded_again_when_they_may_have_changed),
        cmocka_unit_test(weights_are_folded_again_after_another_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
