/*
 * op_soft.c - losses with a target for each number: means over rows, times a weight.
 *
 * Soft: the cross-entropy of logits (B, M) and targets (B, M) that are probabilities, such as those of a
 * search. A row whose targets are all 0 adds nothing. Squared: the squared error of x (B, ...), summed in
 * each row.
 */
#include "rt/op_soft.h"
#include "rt/reference.h"

#include <math.h>

/* Checks that x (B, ...) and targets have equally many numbers, and makes the loss. */
static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *targets = &graph->tensors[node->in[TARGETS]];
    int64_t one = 1;
    if (x->dtype != TIDE_F32 || targets->dtype != TIDE_F32 ||
        tide_tensor_count(targets) != tide_tensor_count(x))
        return tide_graph_fail(graph, "%s: '%s' does not fit '%s'", node->op->name, targets->name, x->name);
    return tide_graph_output(graph, node, "loss", TIDE_F32, 1, &one);
}

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

static void squared_forward(const struct tide_call *call)
{
    double sum = 0;
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, X)); i++)
        sum += pow(tide_in(call, X, i) - tide_in(call, TARGETS, i), 2);
    tide_set_out(call, 0, 0, sum * tide_soft_share(call));
}

static void squared_backward(const struct tide_call *call)
{
    squared_forward(call);
    for (int64_t i = 0; i < tide_tensor_count(tide_in_tensor(call, X)); i++)
        tide_give_grad(call, X, i,
                       2 * (tide_in(call, X, i) - tide_in(call, TARGETS, i)) * tide_soft_share(call) *
                           call->loss_scale);
}

const struct tide_op tide_op_of_soft = {
    .name = "soft",
    .shape = shape,
    .each = 20,
    .reads_in = {[X] = 1U << X | 1U << TARGETS},
    .is_loss = true,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

const struct tide_op tide_op_of_squared = {
    .name = "squared",
    .shape = shape,
    .each = 3,
    .reads_in = {[X] = 1U << X | 1U << TARGETS},
    .is_loss = true,
    .reference_forward = squared_forward,
    .reference_backward = squared_backward,
};

static int append(struct tide_graph *graph, const struct tide_op *op, int x, int targets, float weight)
{
    struct tide_node node = {.op = op, .in = {x, targets}, .in_count = 2, .real = weight};
    return tide_graph_append(graph, &node);
}

int tide_op_soft(struct tide_graph *graph, int logits, int targets, float weight)
{
    return append(graph, &tide_op_of_soft, logits, targets, weight);
}

int tide_op_squared(struct tide_graph *graph, int x, int targets, float weight)
{
    return append(graph, &tide_op_of_squared, x, targets, weight);
}
