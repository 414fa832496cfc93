/*
 * op_soft.c - a loss: the cross-entropy of logits (B, M) and targets (B, M) that are probabilities, such as
 * those of a search. The mean over rows, times a weight. A row whose targets are all 0 adds nothing.
 */
#include "rt/op_soft.h"
#include "rt/reference.h"

#include <math.h>

/* ---- reference */

static double log_sum(const struct tide_call *call, int64_t row, int64_t moves)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < moves; j++)
        most = fmax(most, tide_in(call, X, row * moves + j));
    for (int64_t j = 0; j < moves; j++)
        sum += exp(tide_in(call, X, row * moves + j) - most);
    return most + log(sum); /* cppcheck-suppress invalidFunctionArg ; there are moves */
}

static void reference_forward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            moves = tide_tensor_columns(tide_in_tensor(call, X));
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < moves; j++)
            sum += tide_in(call, TARGETS, i * moves + j) *
                   (log_sum(call, i, moves) - tide_in(call, X, i * moves + j));
    tide_set_out(call, 0, 0, sum * tide_soft_share(call));
}

static void reference_backward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            moves = tide_tensor_columns(tide_in_tensor(call, X));
    reference_forward(call);
    for (int64_t i = 0; i < rows; i++) {
        double all = 0, log_sum_i = log_sum(call, i, moves);
        for (int64_t j = 0; j < moves; j++)
            all += tide_in(call, TARGETS, i * moves + j);
        for (int64_t j = 0; j < moves; j++)
            tide_give_grad(call, X, i * moves + j,
                           (all * exp(tide_in(call, X, i * moves + j) - log_sum_i) -
                            tide_in(call, TARGETS, i * moves + j)) *
                               tide_soft_share(call) * call->loss_scale);
    }
}

const struct tide_op tide_op_of_soft = {
    .name = "soft",
    .shape = tide_soft_shape,
    .each = 20,
    .reads_in = {[X] = 1U << X | 1U << TARGETS},
    .is_loss = true,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_soft(struct tide_graph *graph, int logits, int targets, float weight)
{
    struct tide_node node = {.op = &tide_op_of_soft, .in = {logits, targets}, .in_count = 2, .real = weight};
    return tide_graph_append(graph, &node);
}
