/*
 * op_fold.c - folds a batch norm into the product before it, as one product with a bias: weight (K, O) and
 * the norm's scale, shift, running mean and running variance (O) -> weight times scale / deviation, column by
 * column, and the bias (O): shift - mean times scale / deviation. For a 3x3 convolution it can instead give
 * the points of the weight (9 I, O) (winograd.h). Forward only: nothing trains with running statistics. Both
 * outputs are states; programs that fold the same weight share them.
 */
#include "rt/op_fold.h"
#include "rt/reference.h"

#include <math.h>

/* Returns the same fold in another program; NULL: there is none. */
static const struct tide_node *twin_of(const struct tide_graph *graph, const struct tide_node *node)
{
    for (int i = 0; i < graph->node_count; i++) {
        const struct tide_node *other = &graph->nodes[i];
        if (other->op == node->op && !memcmp(other->in, node->in, sizeof node->in) &&
            other->numbers[BY_POINTS] == node->numbers[BY_POINTS])
            return other;
    }
    return NULL;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *weight = &graph->tensors[node->in[WEIGHT]];
    const struct tide_node *twin = twin_of(graph, node);
    const bool by_points = node->numbers[BY_POINTS];
    int64_t dims[2] = {tide_tensor_rows(weight), tide_tensor_columns(weight)}, rows = dims[0];
    for (int i = SCALE; i <= VARIANCE; i++) {
        const struct tide_tensor *t = &graph->tensors[node->in[i]];
        if (weight->rank != 2 || weight->dtype == TIDE_I8 || t->rank != 1 || t->dims[0] != dims[1] ||
            t->dtype != TIDE_F32)
            return tide_graph_fail(graph, "fold: '%s' does not fit '%s'", t->name, weight->name);
    }
    if (by_points && (rows % TIDE_WINDOW || dims[1] % TIDE_POINTS_STEP || weight->dtype != TIDE_F32))
        return tide_graph_fail(graph, "fold: '%s' is not a convolution in f32", weight->name);
    node->out_count = 2;
    if (twin) {
        memcpy(node->out, twin->out, sizeof node->out);
        return 0;
    }
    int64_t points[2] = {tide_panels(dims[1]) * TIDE_POINTS * (rows / TIDE_WINDOW), TIDE_PANEL};
    node->out[FOLDED] =
        tide_graph_tensor(graph, "folded", TIDE_STATE, weight->dtype, 2, by_points ? points : dims);
    node->out[BIAS] = tide_graph_tensor(graph, "folded bias", TIDE_STATE, TIDE_F32, 1, dims + 1);
    return graph->failed ? -1 : 0;
}

/* ---- reference */

/* The points of column j; after the last column, also the zeros that pad its panel. */
static void reference_points(const struct tide_call *call, int64_t j, double by)
{
    const struct tide_tensor *weight = tide_in_tensor(call, WEIGHT);
    int64_t in = tide_tensor_rows(weight) / TIDE_WINDOW, columns = tide_tensor_columns(weight),
            end = j + 1 == columns ? tide_panels(columns) * TIDE_PANEL : j + 1;
    for (int64_t at = 0; at < TIDE_POINTS * in; at++) {
        int64_t row = j / TIDE_PANEL * TIDE_POINTS * in + at, k = at % in;
        const double *down = tide_points_of_weight[at / in / TIDE_POINTS_SIDE],
                     *right = tide_points_of_weight[at / in % TIDE_POINTS_SIDE];
        double sum = 0;
        for (int place = 0; place < TIDE_WINDOW; place++)
            sum += down[place / TIDE_WINDOW_SIDE] * right[place % TIDE_WINDOW_SIDE] *
                   tide_in(call, WEIGHT, (place * in + k) * columns + j);
        for (int64_t i = j; i < end; i++)
            tide_set_out(call, FOLDED, row * TIDE_PANEL + i % TIDE_PANEL, i == j ? sum * by : 0);
    }
}

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, WEIGHT)),
            columns = tide_tensor_columns(tide_in_tensor(call, WEIGHT));
    for (int64_t j = 0; j < columns; j++) {
        double by = tide_in(call, SCALE, j) / sqrt(tide_in(call, VARIANCE, j) + call->node->real);
        if (call->node->numbers[BY_POINTS])
            reference_points(call, j, by);
        for (int64_t i = 0; !call->node->numbers[BY_POINTS] && i < rows; i++)
            tide_set_out(call, FOLDED, i * columns + j, tide_in(call, WEIGHT, i * columns + j) * by);
        tide_set_out(call, BIAS, j, tide_in(call, SHIFT, j) - tide_in(call, MEAN, j) * by);
    }
}

const struct tide_op tide_op_of_fold = {
    .name = "fold",
    .shape = shape,
    .each = 1,
    .keeps = true,
    .reference_forward = reference_forward,
};

int tide_op_fold(struct tide_graph *graph, int weight, const struct tide_batchnorm *norm, bool by_points)
{
    struct tide_node node = {.op = &tide_op_of_fold,
                             .in = {weight, norm->weight, norm->bias, norm->mean, norm->variance},
                             .in_count = 5,
                             .numbers = {[BY_POINTS] = by_points},
                             .real = norm->epsilon};
    return tide_graph_append(graph, &node);
}
