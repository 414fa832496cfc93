/*
 * op_linear.c - y (N, O) = x (N, I) weight (I, O) [+ bias (O)].
 *
 * The weight lies as (in, out), as in GPT-2's published files, or as (out, in), as in most others. However it
 * is stored, each product converts it for itself to what is multiplied, which saves a second copy of all
 * weights.
 */
#include "rt/op.h"
#include "rt/reference.h"
#include "rt/cpu/rows.h"

enum { X, WEIGHT, BIAS };
enum { WIDE, TRANSPOSED }; /* numbers of the node */

struct dims {
    int64_t rows, in, out;
    enum tide_dtype from, to;  /* of x and of y */
    enum tide_dtype stored;    /* of the weight */
    bool has_bias, transposed; /* transposed: the weight lies as (out, in) */
};

static struct dims dims_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *y = &graph->tensors[node->out[0]];
    return (struct dims){.rows = tide_tensor_rows(x),
                         .in = tide_tensor_columns(x),
                         .out = tide_tensor_columns(y),
                         .from = x->dtype,
                         .to = y->dtype,
                         .stored = graph->tensors[node->in[WEIGHT]].dtype,
                         .has_bias = node->in_count > BIAS,
                         .transposed = node->numbers[TRANSPOSED]};
}

static struct tide_product y_product(const struct dims *d)
{
    struct tide_product p = tide_product(d->rows, d->out, d->in, false, d->transposed, d->from, d->to);
    p.has_bias = d->has_bias;
    tide_product_stored(&p, d->from, d->stored);
    return p;
}

static struct tide_product x_grad_product(const struct dims *d, bool adds)
{
    struct tide_product p = tide_product(d->rows, d->in, d->out, false, !d->transposed, d->from, d->from);
    tide_product_stored(&p, d->to, d->stored);
    p.adds = adds;
    return p;
}

static struct tide_product weight_grad_product(const struct dims *d, bool adds)
{
    int64_t m = d->transposed ? d->out : d->in, n = d->transposed ? d->in : d->out;
    struct tide_product p = tide_product(m, n, d->rows, true, false, d->from, TIDE_F32);
    *(d->transposed ? &p.a_from : &p.b_from) = d->to;
    p.adds = adds;
    return p;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *weight = &graph->tensors[node->in[WEIGHT]],
                             *bias = node->in_count > BIAS ? &graph->tensors[node->in[BIAS]] : NULL;
    int in = node->numbers[TRANSPOSED] ? 1 : 0, out = 1 - in;
    if (weight->rank != 2 || weight->dims[in] != tide_tensor_columns(x) ||
        (bias && (bias->rank != 1 || bias->dims[0] != weight->dims[out])))
        return tide_graph_fail(graph, "linear: '%s' (%lld columns) does not fit '%s'", x->name,
                               (long long)tide_tensor_columns(x), weight->name);
    int64_t dims[2] = {tide_tensor_rows(x), weight->dims[out]};
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "linear", TIDE_ACTIVATION,
                                     node->numbers[WIDE] ? TIDE_F32 : graph->compute, 2, dims);
    return node->out[0] < 0 ? -1 : 0;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction)
{
    struct dims d = dims_of(graph, node);
    if (direction == TIDE_FORWARD) {
        struct tide_product y = y_product(&d);
        return tide_matmuls_scratch(matmuls, &y);
    }
    size_t most = 0;
    for (int adds = 0; adds < 2; adds++) {
        struct tide_product x = x_grad_product(&d, adds), weight = weight_grad_product(&d, adds);
        most =
            larger(most, larger(tide_matmuls_scratch(matmuls, &x), tide_matmuls_scratch(matmuls, &weight)));
    }
    return most;
}

static void forward(const struct tide_call *call)
{
    struct dims d = dims_of(call->graph, call->node);
    struct tide_product y = y_product(&d);
    tide_matmul(call->matmuls, &y, call->in[X], call->in[WEIGHT], call->in[BIAS], call->out[0],
                call->scratch);
}

static void backward(const struct tide_call *call)
{
    struct dims d = dims_of(call->graph, call->node);
    const void *y_grad = call->out_grad[0];
    if (call->in_grad[BIAS])
        tide_rows_sum(call->in_grad[BIAS], call->adds >> BIAS & 1, y_grad, d.to, d.rows, d.out);
    if (call->in_grad[WEIGHT]) {
        struct tide_product weight = weight_grad_product(&d, call->adds >> WEIGHT & 1);
        tide_matmul(call->matmuls, &weight, d.transposed ? y_grad : call->in[X],
                    d.transposed ? call->in[X] : y_grad, NULL, call->in_grad[WEIGHT], call->scratch);
    }
    if (call->in_grad[X]) {
        struct tide_product x = x_grad_product(&d, call->adds >> X & 1);
        tide_matmul(call->matmuls, &x, y_grad, call->in[WEIGHT], NULL, call->in_grad[X], call->scratch);
    }
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    struct dims d = dims_of(graph, node);
    return 2.0 * (double)d.rows * (double)d.in * (double)d.out;
}

/* ---- reference */

static double plain_weight(const struct tide_call *call, const struct dims *d, int64_t in, int64_t out)
{
    return d->transposed ? tide_in_row(call, WEIGHT, out, in) : tide_in_row(call, WEIGHT, in, out);
}

static void reference_forward(const struct tide_call *call)
{
    struct dims d = dims_of(call->graph, call->node);
    for (int64_t i = 0; i < d.rows; i++)
        for (int64_t j = 0; j < d.out; j++) {
            double sum = d.has_bias ? tide_in(call, BIAS, j) : 0;
            for (int64_t k = 0; k < d.in; k++)
                sum += tide_in(call, X, i * d.in + k) * plain_weight(call, &d, k, j);
            tide_set_out(call, 0, i * d.out + j, sum);
        }
}

static void reference_backward(const struct tide_call *call)
{
    struct dims d = dims_of(call->graph, call->node);
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
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .work = work,
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
