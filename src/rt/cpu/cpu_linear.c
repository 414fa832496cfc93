/*
 * cpu_linear.c - linear layers on processors.
 *
 * Each product converts the weight from its stored type to the type that is multiplied. This saves a second
 * copy of all weights.
 */
#include "base/whole.h"
#include "rt/cpu/kernels.h"
#include "rt/cpu/matmul.h"
#include "rt/cpu/rows.h"
#include "rt/op_linear.h"

static struct tide_product y_product(const struct tide_linear *d)
{
    struct tide_product p = tide_product(d->rows, d->out, d->in, false, d->transposed, d->from, d->to);
    p.has_bias = d->has_bias;
    p.relu = d->relu;
    tide_product_stored(&p, d->from, d->stored);
    return p;
}

static struct tide_product x_grad_product(const struct tide_linear *d, bool adds)
{
    struct tide_product p = tide_product(d->rows, d->in, d->out, false, !d->transposed, d->from, d->from);
    tide_product_stored(&p, d->to, d->stored);
    p.adds = adds;
    return p;
}

static struct tide_product weight_grad_product(const struct tide_linear *d, bool adds)
{
    int64_t m = d->transposed ? d->out : d->in, n = d->transposed ? d->in : d->out;
    struct tide_product p = tide_product(m, n, d->rows, true, false, d->from, d->stored);
    *(d->transposed ? &p.a_from : &p.b_from) = d->to;
    p.adds = adds;
    return p;
}

static size_t scratch(const struct tide_need *n)
{
    struct tide_linear d = tide_linear_of(n->graph, n->node);
    if (n->direction == TIDE_FORWARD) {
        struct tide_product y = y_product(&d);
        return tide_matmul_scratch(&y);
    }
    size_t most = 0;
    for (int adds = 0; adds < 2; adds++) {
        struct tide_product x = x_grad_product(&d, adds), weight = weight_grad_product(&d, adds);
        most =
            tide_larger_size(most, tide_larger_size(tide_matmul_scratch(&x), tide_matmul_scratch(&weight)));
    }
    return most;
}

static void forward(const struct tide_call *call)
{
    struct tide_linear d = tide_linear_of(call->graph, call->node);
    struct tide_product y = y_product(&d);
    tide_matmul_operands(&y,
                         &(struct tide_operands){call->in[X], call->in[WEIGHT], call->in[BIAS], call->out[0],
                                                 tide_added(call)},
                         call->scratch);
}

static void backward(const struct tide_call *call)
{
    struct tide_linear d = tide_linear_of(call->graph, call->node);
    const void *y_grad = call->out_grad[0];
    if (call->in_grad[BIAS])
        tide_rows_sum(call->in_grad[BIAS], call->adds >> BIAS & 1, y_grad, d.to, d.rows, d.out);
    if (call->in_grad[WEIGHT]) {
        struct tide_product weight = weight_grad_product(&d, call->adds >> WEIGHT & 1);
        tide_matmul(&weight, d.transposed ? y_grad : call->in[X], d.transposed ? call->in[X] : y_grad, NULL,
                    call->in_grad[WEIGHT], call->scratch);
    }
    if (call->in_grad[X]) {
        struct tide_product x = x_grad_product(&d, call->adds >> X & 1);
        tide_matmul(&x, y_grad, call->in[WEIGHT], NULL, call->in_grad[X], call->scratch);
    }
}

const struct tide_cpu_kernels tide_cpu_linear = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
