/*
 * op_squared.c - a loss: the squared error of x (B, ...) against equally many targets, summed in each row.
 * The mean over rows, times a weight.
 */
#include "rt/op_soft.h"
#include "rt/reference.h"

#include <math.h>

/* ---- reference */

static void reference_forward(const struct tide_call *call)
{
    double sum = 0;
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, X)); i++)
        sum += pow(tide_in(call, X, i) - tide_in(call, TARGETS, i), 2);
    tide_set_out(call, 0, 0, sum * tide_soft_share(call));
}

static void reference_backward(const struct tide_call *call)
{
    reference_forward(call);
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, X)); i++)
        tide_give_grad(call, X, i,
                       2 * (tide_in(call, X, i) - tide_in(call, TARGETS, i)) * tide_soft_share(call) *
                           call->loss_scale);
}

const struct tide_op tide_op_of_squared = {
    .name = "squared",
    .shape = tide_soft_shape,
    .each = 3,
    .reads_in = {[X] = 1U << X | 1U << TARGETS},
    .is_loss = true,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_squared(struct tide_graph *graph, int x, int targets, float weight)
{
    struct tide_node node = {.op = &tide_op_of_squared, .in = {x, targets}, .in_count = 2, .real = weight};
    return tide_graph_append(graph, &node);
}
