/*
 * test_rt_winograd.c - convolutions that play, norms folded in: by points (winograd.h) they are what direct
 * sums in f64 are, within a bound; where they go by points; and the same bits in every batch.
 *
 * ERROR: windows and sums of 36 points have a few roundings of numbers some times as large as what comes of
 * them. It stays within the 64 roundings of 2^-24, by the largest number, that test_rt_ops.c grants every
 * operator in f32, and within 3 times the root mean square of what a direct sum in f32 is off by. (Seen, in
 * the worst of three instruction sets: 23 roundings; 2.4 times.)
 */
#include "lent.h"
#include "rt/cpu/cpu_device.h"
#include "rt/cpu/threads.h"
#include "rt/window.h"
#include "sanitized.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const double roundings = 64.0 / (1 << 24), times_direct = 3;

/* A convolution in programs of two batches. */
struct net {
    struct tide_graph *graph;
    const struct tide_device *device;
    struct tide_machine *machine;
    struct tide_board board;
    int64_t in, out;
    int weight, x[2], y[2], programs[2];
    struct tide_batchnorm norm;
};

static void build(struct net *n, int64_t boards, int which)
{
    int64_t dims[2] = {boards * n->board.columns * n->board.rows, n->in};
    n->programs[which] = tide_graph_program(n->graph, "play", false);
    n->x[which] = tide_graph_tensor(n->graph, "x", TIDE_INPUT, TIDE_F32, 2, dims);
    n->y[which] = tide_graph_result(n->graph, tide_op_conv_folded(n->graph, n->x[which], n->weight, &n->norm,
                                                                  n->board.columns, n->board.rows));
}

static float uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (float)(*seed >> 40) / 8388608.0F - 1.0F;
}

/* Half of x is 0, as ReLU leaves it. */
static void fill(struct net *n, int64_t boards)
{
    uint64_t seed = 5;
    float *x = tide_machine_input(n->machine, n->x[1]), *weight = lent(n->machine, n->weight);
    int64_t of_board = n->board.columns * n->board.rows * n->in;
    for (int64_t i = 0; i < boards * of_board; i++)
        x[i] = fmaxf(uniform(&seed), 0);
    for (int64_t i = 0; i < 9 * n->in * n->out; i++)
        weight[i] = uniform(&seed) * sqrtf(6 / (9 * (float)n->in));
    int vectors[] = {n->norm.weight, n->norm.bias, n->norm.mean, n->norm.variance};
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < n->out; i++)
            ((float *)lent(n->machine, vectors[k]))[i] = uniform(&seed) * 0.5F + (k % 3 ? 0 : 1);
    memcpy(tide_machine_input(n->machine, n->x[0]), x, (size_t)of_board * sizeof *x);
}

/* Programs of one board, and of some. */
static struct net set_up(int64_t columns, int64_t rows, int64_t in, int64_t out, int64_t boards)
{
    struct net n = {.graph = tide_graph_new(TIDE_F32),
                    .device = &tide_cpu_device,
                    .board = {columns, rows},
                    .in = in,
                    .out = out};
    struct tide_plan plan;
    struct tide_err err;
    int64_t dims[2] = {9 * in, out};
    n.weight = tide_graph_parameter(n.graph, "weight", true, 2, dims);
    n.norm = (struct tide_batchnorm){.weight = tide_graph_parameter(n.graph, "scale", false, 1, &out),
                                     .bias = tide_graph_parameter(n.graph, "shift", false, 1, &out),
                                     .mean = tide_graph_measured(n.graph, "mean", out),
                                     .variance = tide_graph_measured(n.graph, "variance", out),
                                     .epsilon = 1e-5F};
    build(&n, 1, 0);
    build(&n, boards, 1);
    if (tide_graph_failed(n.graph, &err) ||
        tide_plan_make(n.graph, n.device, &(struct tide_choices){0}, &plan, &err) ||
        tide_machine_new(n.graph, n.device, &plan, &n.machine, &err))
        fail_msg("%s", err.text);
    fill(&n, boards);
    return n;
}

static void tear_down(struct net *n)
{
    tide_machine_free(n->machine);
    tide_graph_free(n->graph);
}

static const float *said(const struct net *n, int which)
{
    tide_machine_run(n->machine, n->programs[which]);
    return tide_machine_result(n->machine, n->programs[which], n->y[which]);
}

static const char *operator_of(const struct net *n, int which)
{
    return n->graph->nodes[n->graph->programs[n->programs[which]].end - 1].op->name;
}

/* ---- the error */

/* A number of y in f64, and what a direct sum in f32 is off by. */
static double direct(struct net *n, const float *weight, int64_t row, int64_t column, double *ret_off)
{
    const float *x = tide_machine_input(n->machine, n->x[1]);
    double by = (double)((float *)lent(n->machine, n->norm.weight))[column] /
                sqrt((double)((float *)lent(n->machine, n->norm.variance))[column] + (double)n->norm.epsilon),
           bias = (double)((float *)lent(n->machine, n->norm.bias))[column] -
                  (double)((float *)lent(n->machine, n->norm.mean))[column] * by,
           sum = 0;
    float coarse = 0;
    for (int place = 0; place < TIDE_WINDOW; place++) {
        int64_t near = tide_board_neighbour(&n->board, row, place);
        for (int64_t k = 0; near >= 0 && k < n->in; k++) {
            float a = x[near * n->in + k], b = weight[(place * n->in + k) * n->out + column];
            sum += (double)a * (double)b;
            coarse = fmaf(a, b, coarse);
        }
    }
    *ret_off = ((double)coarse - sum) * by;
    return sum * by + bias;
}

static void compare(int64_t columns, int64_t rows, int64_t in, int64_t out, int64_t boards)
{
    struct net n = set_up(columns, rows, in, out, boards);
    int64_t count = boards * columns * rows;
    float *weight = malloc((size_t)(9 * in * out) * sizeof *weight),
          *y = malloc((size_t)(count * out) * sizeof *y);
    double worst = 0, largest = 0, squares = 0, of_direct = 0;
    assert_string_equal(operator_of(&n, 1), "winograd");
    memcpy(y, said(&n, 1), (size_t)(count * out) * sizeof *y);
    memcpy(weight, lent(n.machine, n.weight), (size_t)(9 * in * out) * sizeof *weight);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = i % 5; j < out; j += is_slow() ? 35 : 5) {
            double off, right = direct(&n, weight, i, j, &off), wrong = (double)y[i * out + j] - right;
            worst = isfinite(wrong) ? fmax(worst, fabs(wrong)) : INFINITY;
            largest = fmax(largest, fabs(right));
            squares += wrong * wrong;
            of_direct += off * off;
        }
    if (!(worst < largest * roundings && sqrt(squares / of_direct) < times_direct))
        fail_msg("%lld x %lld, %lld -> %lld: off by %g roundings, %g times a direct sum", (long long)columns,
                 (long long)rows, (long long)in, (long long)out, worst / largest * (1 << 24),
                 sqrt(squares / of_direct));
    free(weight);
    free(y);
    tear_down(&n);
}

static void a_convolution_by_points_is_the_direct_one(void **state)
{
    (void)state;
    tide_threads_set(2);
    compare(7, 6, 32, 32, 5);
    compare(15, 15, 96, 96, 2);
    compare(8, 20, 192, 48, 1);
}

/* ---- where */

static void boards_and_channels_say_which_convolutions_go_by_points(void **state)
{
    (void)state;
    static const struct {
        int64_t columns, rows, in, out;
        const char *op;
    } cases[] = {{15, 15, 96, 96, "winograd"}, {7, 6, 32, 32, "winograd"}, {9, 9, 32, 48, "winograd"},
                 {3, 3, 96, 96, "conv"},       {5, 5, 96, 96, "conv"},     {15, 15, 5, 96, "conv"},
                 {15, 15, 96, 16, "conv"},     {15, 15, 100, 96, "conv"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct net n = set_up(cases[i].columns, cases[i].rows, cases[i].in, cases[i].out, 2);
        for (int which = 0; which < 2; which++) /* whatever the batch */
            assert_string_equal(operator_of(&n, which), cases[i].op);
        tear_down(&n);
    }
}

static void boards_have_the_same_bits_in_every_batch_and_with_all_threads(void **state)
{
    (void)state;
    enum { BOARDS = 9 };
    tide_threads_set(1);
    struct net one = set_up(7, 10, 48, 80, BOARDS);
    size_t bytes = (size_t)(70 * 80) * sizeof(float);
    float *all = malloc(BOARDS * bytes);
    memcpy(all, said(&one, 1), BOARDS * bytes);
    assert_memory_equal(said(&one, 0), all, bytes);
    for (int threads = 2; threads < 6; threads++) {
        tide_threads_set(threads);
        struct net more = set_up(7, 10, 48, 80, BOARDS);
        assert_memory_equal(said(&more, 1), all, BOARDS * bytes);
        assert_memory_equal(said(&more, 0), all, bytes);
        tear_down(&more);
    }
    free(all);
    tear_down(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_by_points_is_the_direct_one),
        cmocka_unit_test(boards_and_channels_say_which_convolutions_go_by_points),
        cmocka_unit_test(boards_have_the_same_bits_in_every_batch_and_with_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
