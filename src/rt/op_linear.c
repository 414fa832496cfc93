/*
 * op_linear.c - y (N, O) = x (N, I) weight (I, O) [+ bias (O)].
 *
 * The weight is stored as (in, out), as in GPT-2's published files, or as (out, in), as in most others. x may
 * have more rows of fewer columns in the same memory: all cells of a board as one row.
 */
#include "rt/op_linear.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *weight = &graph->tensors[node->in[WEIGHT]],
                             *bias = node->in_count > BIAS ? &graph->tensors[node->in[BIAS]] : NULL;
    int in = node->numbers[TRANSPOSED] ? 1 : 0, out = 1 - in;
    if (weight->rank != 2 || weight->dims[in] % tide_tensor_columns(x) ||
        tide_tensor_count(x) % weight->dims[in] ||
        (bias && (bias->rank != 1 || bias->dims[0] != weight->dims[out])))
        return tide_graph_fail(graph, "linear: '%s' (%lld columns) does not fit '%s'", x->name,
                               (long long)tide_tensor_columns(x), weight->name);
    int64_t dims[2] = {tide_tensor_count(x) / weight->dims[in], weight->dims[out]};
    return tide_graph_output(graph, node, "linear", node->numbers[WIDE] ? TIDE_F32 : graph->compute, 2, dims);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    struct tide_linear d = tide_linear_of(graph, node);
    return 2.0 * (double)d.rows * (double)d.in * (double)d.out;
}

/* ---- reference */

static double plain_weight(const struct tide_call *call, const struct tide_linear *d, int64_t in, int64_t out)
{
    return d->transposed ? tide_in_row(call, WEIGHT, out, in) : tide_in_row(call, WEIGHT, in, out);
}

static void reference_forward(const struct tide_call *call)
{
    struct tide_linear d = tide_linear_of(call->graph, call->node);
    for (int64_t i = 0; i < d.rows; i++)
        for (int64_t j = 0; j < d.out; j++) {
            double sum = d.has_bias ? tide_in(call, BIAS, j) : 0;
            for (int64_t k = 0; k < d.in; k++)
                sum += tide_in(call, X, i * d.in + k) * plain_weight(call, &d, k, j);
            tide_end_out(call, i * d.out + j, sum);
        }
}

static void reference_backward(const struct tide_call *call)
{
    struct tide_linear d = tide_linear_of(call->graph, call->node);
    for (int64_t i = 0; i < d.rows; i++)
        for (int64_t k = 0; k < d.in; k++) {
            double sum = 0;
            for (int64_t j = 0; j < d.out; j++)
                sum += tide_out_grad(call, 0, i * d.out + j) * plain_weight(call, &d, k, j);
            tide_give_grad(call, X, i * d.in + k, sum);
        }
    for (int64_t j = 0; j < d.out; j++) {
        double bias = 0;
        for (int64_t i = 0; i < d.rows; i++)
            bias += tide_out_grad(call, 0, i * d.out + j);
        tide_give_grad(call, BIAS, j, bias);
        for (int64_t k = 0; k < d.in; k++) {
            double sum = 0;
            for (int64_t i = 0; i < d.rows; i++)
                sum += tide_in(call, X, i * d.in + k) * tide_out_grad(call, 0, i * d.out + j);
            tide_give_grad(call, WEIGHT, d.transposed ? j * d.in + k : k * d.out + j, sum);
        }
    }
}

const struct tide_op tide_op_of_linear = {
    .name = "linear",
    .shape = shape,
    .work = work,
    .ends = true,
    .reads_in = {[X] = 1U << WEIGHT, [WEIGHT] = 1U << X},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

static int append(struct tide_graph *graph, int x, int weight, int bias, bool wide, bool transposed)
{
    struct tide_node node = {.op = &tide_op_of_linear,
                             .in = {x, weight, bias},
                             .in_count = bias < 0 ? 2 : 3,
                             .numbers = {wide, transposed}};
    return tide_graph_append(graph, &node);
}

int tide_op_linear(struct tide_graph *graph, int x, int weight, int bias, bool wide)
{
    return append(graph, x, weight, bias, wide, false);
}

int tide_op_linear_transposed(struct tide_graph *graph, int x, int weight, int bias, bool wide)
{
    return append(graph, x, weight, bias, wide, true);
}
