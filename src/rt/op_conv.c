/*
 * op_conv.c - 3x3 convolutions of boards: each cell's window (9, I) as one row, times weight (9 I, O) [+ bias
 * (O)]; or depthwise, each channel by itself: weight (9, C) [+ bias (C)].
 */
#include "rt/op_conv.h"
#include "rt/reference.h"

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *weight = &graph->tensors[node->in[WEIGHT]],
                             *bias = node->in_count > BIAS ? &graph->tensors[node->in[BIAS]] : NULL;
    bool is_deep = node->op == &tide_op_of_conv;
    int64_t columns = node->numbers[COLUMNS], rows = node->numbers[ROWS], in = tide_tensor_columns(x),
            dims[2] = {tide_tensor_rows(x), weight->rank == 2 ? weight->dims[1] : 0};
    if (columns < 1 || rows < 1 || dims[0] % (columns * rows))
        return tide_graph_fail(graph, "%s: '%s' (%lld rows) is not made of boards of %lld x %lld",
                               node->op->name, x->name, (long long)dims[0], (long long)columns,
                               (long long)rows);
    if (weight->rank != 2 || weight->dims[0] != TIDE_WINDOW * (is_deep ? in : 1) ||
        (!is_deep && dims[1] != in) || (bias && (bias->rank != 1 || bias->dims[0] != dims[1])))
        return tide_graph_fail(graph, "%s: '%s' (%lld columns) does not fit '%s'", node->op->name, x->name,
                               (long long)in, weight->name);
    return tide_graph_output(graph, node, node->op->name, is_deep ? graph->compute : x->dtype, 2, dims);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    struct tide_conv d = tide_conv_of(graph, node);
    return 2.0 * TIDE_WINDOW * (double)d.rows * (double)d.in * (double)d.out;
}

/* ---- reference; depthwise, channel j of y is made of channel j of x alone */

struct plain {
    struct tide_conv d;
    bool is_deep;
    int64_t fan; /* rows of the weight for each place */
};

static struct plain plain_of(const struct tide_call *call)
{
    struct plain p = {tide_conv_of(call->graph, call->node), call->node->op == &tide_op_of_conv, 1};
    p.fan = p.is_deep ? p.d.in : 1;
    return p;
}

/* Returns the number of x that row k of a place multiplies for column j of y. */
static double x_at(const struct tide_call *call, const struct plain *p, int64_t cell, int64_t k, int64_t j)
{
    return tide_in(call, X, cell * p->d.in + (p->is_deep ? k : j));
}

static void reference_forward(const struct tide_call *call)
{
    struct plain p = plain_of(call);
    for (int64_t i = 0; i < p.d.rows; i++)
        for (int64_t j = 0; j < p.d.out; j++) {
            double sum = p.d.has_bias ? tide_in(call, BIAS, j) : 0;
            for (int place = 0; place < TIDE_WINDOW; place++) {
                int64_t near = tide_board_neighbour(&p.d.board, i, place);
                for (int64_t k = 0; near >= 0 && k < p.fan; k++)
                    sum += x_at(call, &p, near, k, j) * tide_in_row(call, WEIGHT, place * p.fan + k, j);
            }
            tide_end_out(call, i * p.d.out + j, sum);
        }
}

/* Sums over all windows that contain the row. */
static double x_gradient(const struct tide_call *call, const struct plain *p, int64_t row, int64_t column)
{
    int64_t first = p->is_deep ? 0 : column, end = p->is_deep ? p->d.out : column + 1;
    double sum = 0;
    for (int place = 0; place < TIDE_WINDOW; place++) {
        int64_t whose = tide_board_neighbour(&p->d.board, row, TIDE_WINDOW - 1 - place);
        for (int64_t j = first; whose >= 0 && j < end; j++)
            sum += tide_out_grad(call, 0, whose * p->d.out + j) *
                   tide_in_row(call, WEIGHT, place * p->fan + (p->is_deep ? column : 0), j);
    }
    return sum;
}

static double weight_gradient(const struct tide_call *call, const struct plain *p, int64_t row, int64_t j)
{
    double sum = 0;
    for (int64_t i = 0; i < p->d.rows; i++) {
        int64_t near = tide_board_neighbour(&p->d.board, i, (int)(row / p->fan));
        if (near >= 0)
            sum += x_at(call, p, near, row % p->fan, j) * tide_out_grad(call, 0, i * p->d.out + j);
    }
    return sum;
}

static void reference_backward(const struct tide_call *call)
{
    struct plain p = plain_of(call);
    for (int64_t i = 0; call->in_grad[X] && i < p.d.rows; i++)
        for (int64_t k = 0; k < p.d.in; k++)
            tide_give_grad(call, X, i * p.d.in + k, x_gradient(call, &p, i, k));
    for (int64_t j = 0; j < p.d.out; j++) {
        double bias = 0;
        for (int64_t i = 0; i < p.d.rows; i++)
            bias += tide_out_grad(call, 0, i * p.d.out + j);
        tide_give_grad(call, BIAS, j, bias);
        for (int64_t row = 0; call->in_grad[WEIGHT] && row < TIDE_WINDOW * p.fan; row++)
            tide_give_grad(call, WEIGHT, row * p.d.out + j, weight_gradient(call, &p, row, j));
    }
}

const struct tide_op tide_op_of_conv = {
    .name = "conv",
    .shape = shape,
    .work = work,
    .ends = true,
    .reads_in = {[X] = 1U << WEIGHT, [WEIGHT] = 1U << X},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

const struct tide_op tide_op_of_depthwise = {
    .name = "depthwise",
    .shape = shape,
    .each = 2 * TIDE_WINDOW,
    .reads_in = {[X] = 1U << WEIGHT, [WEIGHT] = 1U << X},
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

static int append(struct tide_graph *graph, const struct tide_op *op, int x, int weight, int bias,
                  int64_t columns, int64_t rows)
{
    struct tide_node node = {.op = op,
                             .in = {x, weight, bias},
                             .in_count = bias < 0 ? 2 : 3,
                             .numbers = {[COLUMNS] = columns, [ROWS] = rows}};
    return tide_graph_append(graph, &node);
}

int tide_op_conv(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows)
{
    return append(graph, &tide_op_of_conv, x, weight, bias, columns, rows);
}

int tide_op_depthwise(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows)
{
    return append(graph, &tide_op_of_depthwise, x, weight, bias, columns, rows);
}
