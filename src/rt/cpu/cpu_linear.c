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
    p.relu = d->relu;
    tide_product_stored(&p, d->from, d->stored);
    return p;
}

static struct tide_product x_grad_product(const struct tide_linear *d)
{
    struct tide_product p = tide_product(d->rows, d->in, d->out, false, !d->transposed, d->from, d->from);
    tide_product_stored(&p, d->to, d->stored);
    return p;
}

static struct tide_product weight_grad_product(const struct tide_linear *d)
{
    int64_t m = d->transposed ? d->out : d->in, n = d->transposed ? d->in : d->out;
    struct tide_product p = tide_product(m, n, d->rows, true, false, d->from, d->stored);
    *(d->transposed ? &p.a_from : &p.b_from) = d->to;
    return p;
}

static size_t scratch(const struct tide_need *n)
{
    struct tide_linear d = tide_linear_of(n->graph, n->node);
    if (n->direction == TIDE_FORWARD) {
        struct tide_product y = y_product(&d);
        return tide_matmul_scratch(&y);
    }
    struct tide_product x = x_grad_product(&d), weight = weight_grad_product(&d);
    return tide_larger_size(tide_matmul_scratch(&x), tide_matmul_scratch(&weight));
}

static void forward(const struct tide_call *call)
{
    struct tide_linear d = tide_linear_of(call->graph, call->node);
    struct tide_product y = y_product(&d);
    struct tide_operands operands = {.a = call->in[X],
                                     .b = call->in[WEIGHT],
                                     .bias = d.has_bias ? call->in[BIAS] : NULL,
                                     .c = call->out[0],
                                     .added = tide_added(call)};
    tide_matmul(&y, &operands, call->scratch);
}

static void backward(const struct tide_call *call)
{
    struct tide_linear d = tide_linear_of(call->graph, call->node);
    const void *y_grad = call->out_grad[0];
    if (call->in_grad[BIAS])
        tide_rows_sum(call->in_grad[BIAS], call->adds >> BIAS & 1, y_grad, d.to, d.rows, d.out);
    if (call->in_grad[WEIGHT]) {
        struct tide_product weight = weight_grad_product(&d);
        struct tide_operands operands = {.a = d.transposed ? y_grad : call->in[X],
                                         .b = d.transposed ? call->in[X] : y_grad,
                                         .c = call->in_grad[WEIGHT],
                                         .added = tide_grad_before(call, WEIGHT)};
        tide_matmul(&weight, &operands, call->scratch);
    }
    if (call->in_grad[X]) {
        struct tide_product x = x_grad_product(&d);
        struct tide_operands operands = {
            .a = y_grad, .b = call->in[WEIGHT], .c = call->in_grad[X], .added = tide_grad_before(call, X)};
        tide_matmul(&x, &operands, call->scratch);
    }
}

const struct tide_cpu_kernels tide_cpu_linear = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
