/*
 * op_depthwise.c - 3x3 convolutions of boards, each channel by itself: weight (9, C) [+ bias (C)].
 */
#include "rt/op_conv.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *weight = &graph->tensors[node->in[WEIGHT]],
                             *bias = node->in_count > BIAS ? &graph->tensors[node->in[BIAS]] : NULL;
    int64_t columns = node->numbers[COLUMNS], rows = node->numbers[ROWS];
    int64_t dims[2] = {tide_tensor_rows(x), tide_tensor_columns(x)};
    if (columns < 1 || rows < 1 || dims[0] % (columns * rows))
        return tide_graph_fail(graph, "depthwise: '%s' (%lld rows) is not made of boards of %lld x %lld",
                               x->name, (long long)dims[0], (long long)columns, (long long)rows);
    if (weight->rank != 2 || weight->dims[0] != TIDE_WINDOW || weight->dims[1] != dims[1] ||
        (bias && (bias->rank != 1 || bias->dims[0] != dims[1])))
        return tide_graph_fail(graph, "depthwise: '%s' (%lld columns) does not fit '%s'", x->name,
                               (long long)dims[1], weight->name);
    return tide_graph_output(graph, node, "depthwise", x->dtype, 2, dims);
}

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    struct tide_conv d = tide_conv_of(call->graph, call->node);
    for (int64_t i = 0; i < d.rows; i++)
        for (int64_t k = 0; k < d.in; k++) {
            double sum = d.has_bias ? tide_in(call, BIAS, k) : 0;
            for (int place = 0; place < TIDE_WINDOW; place++) {
                int64_t near = tide_board_neighbour(&d.board, i, place);
                if (near >= 0)
                    sum += tide_in(call, X, near * d.in + k) * tide_in_row(call, WEIGHT, place, k);
            }
            tide_set_out(call, 0, i * d.in + k, sum);
        }
}

static void reference_backward(const struct tide_call *call)
{
    struct tide_conv d = tide_conv_of(call->graph, call->node);
    for (int64_t k = 0; k < d.in; k++) {
        double bias = 0, weight[TIDE_WINDOW] = {0};
        for (int64_t i = 0; i < d.rows; i++) {
            double x = 0;
            for (int place = 0; place < TIDE_WINDOW; place++) {
                int64_t near = tide_board_neighbour(&d.board, i, place),
                        whose = tide_board_neighbour(&d.board, i, TIDE_WINDOW - 1 - place);
                if (near >= 0 && call->in_grad[WEIGHT])
                    weight[place] += tide_in(call, X, near * d.in + k) * tide_out_grad(call, 0, i * d.in + k);
                if (whose >= 0 && call->in_grad[X])
                    x += tide_out_grad(call, 0, whose * d.in + k) * tide_in_row(call, WEIGHT, place, k);
            }
            bias += tide_out_grad(call, 0, i * d.in + k);
            tide_give_grad(call, X, i * d.in + k, x);
        }
        tide_give_grad(call, BIAS, k, bias);
        for (int place = 0; place < TIDE_WINDOW; place++)
            tide_give_grad(call, WEIGHT, place * d.in + k, weight[place]);
    }
}

const struct tide_op tide_op_of_depthwise = {
    .name = "depthwise",
    .shape = shape,
    .each = 2 * TIDE_WINDOW,
    .reads_in = {[X] = 1U << WEIGHT, [WEIGHT] = 1U << X},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_depthwise(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows)
{
    struct tide_node node = {.op = &tide_op_of_depthwise,
                             .in = {x, weight, bias},
                             .in_count = bias < 0 ? 2 : 3,
                             .numbers = {[COLUMNS] = columns, [ROWS] = rows}};
    return tide_graph_append(graph, &node);
}
