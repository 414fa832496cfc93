/*
 * op_winograd.c - a convolution by points: for each patch and channel, the points of the window times the
 * points of the weight, summed over channels. The patch is interpolated from these sums; + bias (O). Forward
 * only.
 */
#include "rt/op_winograd.h"
#include "rt/reference.h"

enum { SIDE = TIDE_POINTS_SIDE, POINTS = TIDE_POINTS };

#define A       TIDE_POINT_A
#define B       TIDE_POINT_B
#define A2      (A * A)
#define B2      (B * B)
#define A2B2    (A2 * B2)
#define AB2     (A * B2)
#define BA2     (B * A2)
#define A3      (A2 * A)
#define B3      (B2 * B)
#define AT_A(x) ((x) / (2 * A2 * (A2 - B2)))
#define AT_B(x) ((x) / (2 * B2 * (B2 - A2)))

const double tide_points_of_window[SIDE][SIDE] = {
    {A2B2, 0, -A2 - B2, 0, 1, 0}, {0, -AB2, -B2, A, 1, 0}, {0, AB2, -B2, -A, 1, 0},
    {0, -BA2, -A2, B, 1, 0},      {0, BA2, -A2, -B, 1, 0}, {0, A2B2, 0, -A2 - B2, 0, 1},
};

const double tide_points_of_weight[SIDE][TIDE_WINDOW_SIDE] = {
    {1 / A2B2, 0, 0},
    {AT_A(1), AT_A(A), AT_A(A2)},
    {AT_A(1), AT_A(-A), AT_A(A2)},
    {AT_B(1), AT_B(B), AT_B(B2)},
    {AT_B(1), AT_B(-B), AT_B(B2)},
    {0, 0, 1},
};

const double tide_points_of_patch[TIDE_PATCH_SIDE][SIDE] = {
    {1, 1, 1, 1, 1, 0},
    {0, A, -A, B, -B, 0},
    {0, A2, A2, B2, B2, 0},
    {0, A3, -A3, B3, -B3, 1},
};

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *weight = &graph->tensors[node->in[WEIGHT]],
                             *bias = &graph->tensors[node->in[BIAS]];
    int64_t cells = node->numbers[COLUMNS] * node->numbers[ROWS], in = tide_tensor_columns(x),
            dims[2] = {tide_tensor_rows(x), tide_tensor_count(bias)};
    if (cells < 1 || dims[0] % cells || in % TIDE_POINTS_STEP || dims[1] % TIDE_POINTS_STEP ||
        x->dtype != TIDE_F32 || weight->dtype != TIDE_F32 || tide_tensor_columns(weight) != TIDE_PANEL ||
        tide_tensor_rows(weight) != tide_panels(dims[1]) * TIDE_POINTS * in)
        return tide_graph_fail(graph, "winograd: '%s' does not fit '%s'", x->name, weight->name);
    return tide_graph_output(graph, node, "conv", TIDE_F32, 2, dims);
}

/* That of a direct convolution, although it does a third of it. */
static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    struct tide_winograd d = tide_winograd_of(graph, node);
    return 2.0 * TIDE_WINDOW * (double)tide_tensor_rows(&graph->tensors[node->in[X]]) * (double)d.in *
           (double)d.out;
}

/* ---- reference */

/* Returns the value of a window at a point. */
static double window_at(const struct tide_call *call, const struct tide_winograd *d, int64_t patch,
                        int64_t channel, int point)
{
    double sum = 0;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            int64_t cell = tide_patch_cell(&d->board, patch, y - 1, x - 1);
            if (cell >= 0)
                sum += tide_points_of_window[point / SIDE][y] * tide_points_of_window[point % SIDE][x] *
                       tide_in(call, X, cell * d->in + channel);
        }
    return sum;
}

/* Returns a cell of a patch, from the sums of one column. */
static double cell_of(double sums[POINTS][TIDE_PANEL], int64_t column, int down, int right)
{
    double sum = 0;
    for (int point = 0; point < POINTS; point++)
        sum += tide_points_of_patch[down][point / SIDE] * tide_points_of_patch[right][point % SIDE] *
               sums[point][column];
    return sum;
}

static void reference_of_patch(const struct tide_call *call, const struct tide_winograd *d, int64_t patch,
                               int64_t panel)
{
    double sums[POINTS][TIDE_PANEL] = {0};
    for (int64_t at = 0; at < POINTS * d->in; at++) {
        double window = window_at(call, d, patch, at % d->in, (int)(at / d->in));
        for (int64_t j = 0; j < TIDE_PANEL; j++)
            sums[at / d->in][j] +=
                window * tide_in(call, WEIGHT, (panel * POINTS * d->in + at) * TIDE_PANEL + j);
    }
    for (int place = 0; place < TIDE_PATCH; place++) {
        int down = place / TIDE_PATCH_SIDE, right = place % TIDE_PATCH_SIDE;
        int64_t cell = tide_patch_cell(&d->board, patch, down, right), column = panel * TIDE_PANEL;
        for (int64_t j = 0; cell >= 0 && j < TIDE_PANEL && column + j < d->out; j++)
            tide_end_out(call, cell * d->out + column + j,
                         cell_of(sums, j, down, right) + tide_in(call, BIAS, column + j));
    }
}

static void reference_forward(const struct tide_call *call)
{
    struct tide_winograd d = tide_winograd_of(call->graph, call->node);
    for (int64_t patch = 0; patch < d.patches; patch++)
        for (int64_t panel = 0; panel < tide_panels(d.out); panel++)
            reference_of_patch(call, &d, patch, panel);
}

const struct tide_op tide_op_of_winograd = {
    .name = "winograd",
    .shape = shape,
    .work = work,
    .ends = true,
    .reference_forward = reference_forward,
};

int tide_op_winograd(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows)
{
    struct tide_node node = {.op = &tide_op_of_winograd,
                             .in = {x, weight, bias},
                             .in_count = 3,
                             .numbers = {[COLUMNS] = columns, [ROWS] = rows}};
    return tide_graph_append(graph, &node);
}

/* ---- which of the two */

/* True if points need few enough multiplications compared with a direct convolution. Each of them costs more,
 * because there are fewer per number read and written. The number of threads and the batch do not matter, so
 * that every batch gives the same bits. */
static bool pays(const struct tide_graph *graph, int x, int weight, int64_t columns, int64_t rows)
{
    enum { LEAST = 32 };
    const struct tide_tensor *from = &graph->tensors[x], *by = &graph->tensors[weight];
    int64_t in = tide_tensor_columns(from), out = tide_tensor_columns(by),
            direct = (3 * columns - 2) * (3 * rows - 2),
            points = TIDE_POINTS * tide_patches(columns) * tide_patches(rows);
    return from->dtype == TIDE_F32 && by->dtype == TIDE_F32 && graph->compute == TIDE_F32 &&
           in % TIDE_POINTS_STEP == 0 && out % TIDE_POINTS_STEP == 0 && in >= LEAST && out >= LEAST &&
           8 * points <= 5 * direct;
}

int tide_op_conv_folded(struct tide_graph *graph, int x, int weight, const struct tide_batchnorm *norm,
                        int64_t columns, int64_t rows)
{
    bool by_points = !graph->failed && x >= 0 && weight >= 0 && pays(graph, x, weight, columns, rows);
    int folded = tide_op_fold(graph, weight, norm, by_points);
    return (by_points ? tide_op_winograd : tide_op_conv)(graph, x, folded, folded + 1, columns, rows);
}
