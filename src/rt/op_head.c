/*
 * op_head.c - the tied head and the loss: x (N, C), table (V, C), targets (N) -> a function of the
 * log-probabilities of the targets: their negative mean (cross-entropy), a policy's loss, or they themselves.
 *
 * Logits (N, V) never exist as a whole: a node says how many rows and tokens are computed at a time.
 */
#include "rt/op_head.h"
#include "base/check.h"
#include "rt/reference.h"

#include <math.h>
#include <stdlib.h>

static bool inputs_fit(const struct tide_graph *graph, const struct tide_node *node)
{
    int64_t rows = tide_tensor_rows(&graph->tensors[node->in[X]]);
    for (int i = 0; i < node->loss->inputs; i++) {
        const struct tide_tensor *t = &graph->tensors[node->in[INPUTS + i]];
        if (t->dtype != TIDE_F32 || tide_tensor_count(t) != rows)
            return false;
    }
    return true;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]],
                             *targets = &graph->tensors[node->in[TARGETS]];
    int64_t dims[1] = {1}, rows[1] = {tide_tensor_rows(x)};
    if (table->rank != 2 || table->dims[1] != tide_tensor_columns(x) || targets->dtype != TIDE_I32 ||
        tide_tensor_count(targets) != rows[0] || node->numbers[ROWS] <= 0 || node->numbers[TOKENS] <= 0 ||
        !(node->real > 0) || !inputs_fit(graph, node))
        return tide_graph_fail(graph, "head: '%s' does not fit '%s'", x->name, table->name);
    tide_graph_output(graph, node, "loss", TIDE_F32, 1, dims);
    return tide_graph_output(graph, node, "log-probabilities", TIDE_F32, 1, rows);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    double vocabulary = (double)graph->tensors[node->in[TABLE]].dims[0];
    return 2.0 * (double)tide_tensor_count(&graph->tensors[node->in[X]]) * vocabulary;
}

/* ---- reference */

static int64_t counted(const int32_t *targets, int64_t rows)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        count += targets[i] >= 0;
    return count;
}

static double logit(const struct tide_call *call, int64_t i, int64_t token)
{
    int64_t C = tide_tensor_columns(tide_in_tensor(call, X));
    double sum = 0;
    for (int64_t c = 0; c < C; c++)
        sum += tide_in(call, X, i * C + c) * tide_in_row(call, TABLE, token, c);
    return sum * call->node->real;
}

static double log_sum(const struct tide_call *call, int64_t i)
{
    double most = -INFINITY, sum = 0;
    for (int64_t token = 0; token < tide_in_tensor(call, TABLE)->dims[0]; token++)
        most = fmax(most, logit(call, i, token));
    for (int64_t token = 0; token < tide_in_tensor(call, TABLE)->dims[0]; token++)
        sum += exp(logit(call, i, token) - most);
    return most + log(sum); /* cppcheck-suppress invalidFunctionArg ; a table has tokens */
}

static double plain_log_probability(const struct tide_call *call, int64_t i)
{
    return logit(call, i, ((const int32_t *)call->in[TARGETS])[i]) - log_sum(call, i);
}

static void reference_forward(const struct tide_call *call)
{
    const int32_t *targets = call->in[TARGETS];
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)), count = counted(targets, rows);
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        float slope;
        double of_target = targets[i] < 0 ? 0 : plain_log_probability(call, i);
        tide_set_out(call, LOG_PROBABILITIES, i, of_target);
        sum += targets[i] < 0 ? 0 : (double)tide_head_loss(call, i, (float)of_target, &slope);
    }
    tide_set_out(call, LOSS, 0, count ? sum / (double)(call->node->loss->means ? count : 1) : 0);
}

/* The gradient of the loss by every logit: (N, V). Caller frees. */
static double *logit_grads(const struct tide_call *call)
{
    const int32_t *targets = call->in[TARGETS];
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)), tokens = tide_in_tensor(call, TABLE)->dims[0],
            count = counted(targets, rows);
    double *grads = calloc((size_t)rows * (size_t)tokens, sizeof *grads);
    TIDE_CHECK_TRUE(grads);
    for (int64_t i = 0; i < rows; i++) {
        float slope;
        if (targets[i] < 0)
            continue;
        double log_sum_i = log_sum(call, i);
        tide_head_loss(call, i, (float)(logit(call, i, targets[i]) - log_sum_i), &slope);
        for (int64_t token = 0; token < tokens; token++)
            grads[i * tokens + token] = -(double)slope *
                                        (exp(logit(call, i, token) - log_sum_i) - (token == targets[i])) *
                                        call->loss_scale / (double)(call->node->loss->means ? count : 1);
    }
    return grads;
}

static void reference_backward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X)), tokens = tide_in_tensor(call, TABLE)->dims[0];
    reference_forward(call);
    double *grads = logit_grads(call);
    for (int64_t at = 0; at < rows * C; at++) {
        double sum = 0;
        for (int64_t token = 0; token < tokens; token++)
            sum += grads[at / C * tokens + token] * tide_in_row(call, TABLE, token, at % C);
        tide_give_grad(call, X, at, sum * call->node->real);
    }
    for (int64_t at = 0; at < tokens * C; at++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += grads[i * tokens + at / C] * tide_in(call, X, i * C + at % C);
        tide_give_grad(call, TABLE, at, sum * call->node->real);
    }
    free(grads);
}

const struct tide_op tide_op_of_head = {
    .name = "head",
    .shape = shape,
    .work = work,
    .reads_in =
        {[X] = 1U << X | 1U << TABLE | 1U << TARGETS, [TABLE] = 1U << X | 1U << TABLE | 1U << TARGETS},
    .streams = 1U << TABLE,
    .is_loss = true,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

static float cross_entropy(float log_probability, const float *inputs, const float *constants,
                           float *ret_slope)
{
    (void)inputs, (void)constants;
    *ret_slope = -1;
    return -log_probability;
}

const struct tide_row_loss tide_cross_entropy = {.means = true, .loss = cross_entropy};

int tide_op_head(struct tide_graph *graph, int x, int table, int targets, const struct tide_head *how)
{
    struct tide_node node = {.op = &tide_op_of_head,
                             .in = {x, table, targets},
                             .in_count = INPUTS + how->loss->inputs,
                             .numbers = {how->rows, how->tokens, how->constants >= 0},
                             .real = how->temperature > 0 ? 1 / how->temperature : 1,
                             .loss = how->loss};
    for (int i = 0; i < how->loss->inputs; i++)
        node.in[INPUTS + i] = how->inputs[i];
    if (how->constants >= 0)
        node.in[node.in_count++] = how->constants;
    return tide_graph_append(graph, &node);
}
