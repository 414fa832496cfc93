/*
 * op_head.c - the tied head and the loss: x (N, C), table (V, C), targets (N) -> mean cross-entropy.
 *
 * Logits (N, V) never exist: `rows` rows at a time are multiplied out, turned into their loss and, in
 * training, into their gradient in place, and multiplied back into the gradients of x and of the table. The
 * gradient of the table is a sum over these chunks in their order, so `rows` belongs to the arithmetic and is
 * not changed to fit a budget.
 *
 * The more rows, the less often the table and its gradient go through memory. With bf16 the gradients of a
 * chunk take half of what its logits would: those exist for half a chunk at a time.
 */
#include "rt/kernel.h"
#include "rt/op.h"
#include "rt/reference.h"
#include "rt/rows.h"
#include "rt/threads.h"

#include <math.h>
#include <string.h>

enum { X, TABLE, TARGETS };

struct head {
    int64_t rows, columns, words, chunk, part; /* part: rows of logits */
    enum tide_dtype from;
};

static struct head head_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]];
    struct head h = {.rows = tide_tensor_rows(x),
                     .columns = tide_tensor_columns(x),
                     .words = table->dims[0],
                     .from = x->dtype};
    h.chunk = node->numbers[0] < h.rows ? node->numbers[0] : h.rows;
    h.part = h.from == TIDE_BF16 ? (h.chunk + 1) / 2 : h.chunk;
    return h;
}

/* How many rows are left from `first` on, at most `most`. */
static int64_t rows_from(int64_t first, int64_t rows, int64_t most)
{
    return rows - first < most ? rows - first : most;
}

static struct tide_product logits_product(const struct head *h, int64_t rows)
{
    return tide_product(rows, h->words, h->columns, false, true, h->from, TIDE_F32);
}

static struct tide_product x_grad_product(const struct head *h, int64_t rows)
{
    return tide_product(rows, h->columns, h->words, false, false, h->from, h->from);
}

static struct tide_product table_grad_product(const struct head *h, int64_t rows, bool adds)
{
    struct tide_product p = tide_product(h->words, h->columns, rows, true, false, h->from, TIDE_F32);
    p.adds = adds;
    return p;
}

static int shape(struct tide_graph *graph, struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]],
                             *targets = &graph->tensors[node->in[TARGETS]];
    if (table->rank != 2 || table->dims[1] != tide_tensor_columns(x) || targets->dtype != TIDE_I32 ||
        tide_tensor_count(targets) != tide_tensor_rows(x) || node->numbers[0] <= 0)
        return tide_graph_fail(graph, "head: '%s' does not fit '%s'", x->name, table->name);
    int64_t dims[1] = {1};
    node->out_count = 1;
    node->out[0] = tide_graph_tensor(graph, "loss", TIDE_ACTIVATION, TIDE_F32, 1, dims);
    return node->out[0] < 0 ? -1 : 0;
}

static int prepare(struct tide_matmuls *matmuls, const struct tide_graph *graph, const struct tide_node *node,
                   enum tide_direction direction, struct tide_err *err)
{
    struct head h = head_of(graph, node);
    int64_t sizes[2] = {h.chunk, h.rows % h.chunk};
    for (int i = 0; i < 2 && sizes[i]; i++) {
        struct tide_product x = x_grad_product(&h, sizes[i]);
        for (int64_t first = 0; first < sizes[i]; first += h.part) {
            struct tide_product logits = logits_product(&h, rows_from(first, sizes[i], h.part));
            if (tide_matmuls_want(matmuls, &logits, err))
                return -1;
        }
        if (direction == TIDE_FORWARD)
            continue;
        if (tide_matmuls_want(matmuls, &x, err))
            return -1;
        for (int adds = 0; adds < 2; adds++) {
            struct tide_product table = table_grad_product(&h, sizes[i], adds);
            if (tide_matmuls_want(matmuls, &table, err))
                return -1;
        }
    }
    return 0;
}

/* Where things lie in scratch. */
struct room {
    size_t losses, logits, gradient, table, rest, all;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t most_scratch(const struct tide_matmuls *matmuls, const struct head *h,
                           enum tide_direction direction)
{
    size_t most = 0;
    int64_t sizes[2] = {h->chunk, h->rows % h->chunk};
    for (int i = 0; i < 2 && sizes[i]; i++) {
        for (int64_t first = 0; first < sizes[i]; first += h->part) {
            struct tide_product logits = logits_product(h, rows_from(first, sizes[i], h->part));
            most = larger(most, tide_matmuls_scratch(matmuls, &logits));
        }
        struct tide_product back[3] = {x_grad_product(h, sizes[i]), table_grad_product(h, sizes[i], false),
                                       table_grad_product(h, sizes[i], true)};
        for (int j = 0; direction == TIDE_BACKWARD && j < 3; j++)
            most = larger(most, tide_matmuls_scratch(matmuls, &back[j]));
    }
    return most;
}

static struct room room_of(const struct tide_matmuls *matmuls, const struct head *h,
                           enum tide_direction direction)
{
    bool narrow = h->from == TIDE_BF16;
    struct room r = {0};
    r.logits = tide_aligned((size_t)h->rows * sizeof(float));
    size_t after = r.logits + tide_aligned((size_t)(h->part * h->words) * 4);
    r.gradient = narrow ? after : r.logits;
    r.table =
        after + (narrow && direction == TIDE_BACKWARD ? tide_aligned((size_t)(h->chunk * h->words) * 2) : 0);
    r.rest = r.table + (narrow ? tide_aligned((size_t)(h->words * h->columns) * 2) : 0);
    r.all = r.rest + most_scratch(matmuls, h, direction);
    return r;
}

static size_t scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction)
{
    struct head h = head_of(graph, node);
    return room_of(matmuls, &h, direction).all;
}

struct part {
    const struct head *head;
    float *logits, *losses;
    tide_bf16 *narrow; /* where gradients go; NULL: they replace the logits */
    const int32_t *targets;
    float scale; /* of gradients; 0: only the loss is wanted */
};

TIDE_KERNEL static float exponentials(float *restrict x, int64_t count, float most)
{
    float sums[64] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + 64 <= count; j += 64)
        for (int k = 0; k < 64; k++) {
            x[j + k] = tide_exp(x[j + k] - most);
            sums[k] += x[j + k];
        }
    for (; j < count; j++) {
        x[j] = tide_exp(x[j] - most);
        sum += x[j];
    }
    for (int k = 0; k < 64; k++)
        sum += sums[k];
    return sum;
}

TIDE_KERNEL static float largest(const float *x, int64_t count)
{
    float lanes[64], most;
    int64_t j = 0;
    for (int k = 0; k < 64; k++)
        lanes[k] = x[0];
    for (; j + 64 <= count; j += 64)
        for (int k = 0; k < 64; k++)
            lanes[k] = x[j + k] > lanes[k] ? x[j + k] : lanes[k];
    most = lanes[0];
    for (int k = 1; k < 64; k++)
        most = lanes[k] > most ? lanes[k] : most;
    for (; j < count; j++)
        most = x[j] > most ? x[j] : most;
    return most;
}

TIDE_KERNEL static void multiply(float *x, int64_t count, float by)
{
    for (int64_t j = 0; j < count; j++)
        x[j] *= by;
}

TIDE_KERNEL static void multiply_narrow(tide_bf16 *restrict to, const float *restrict x, int64_t count,
                                        float by)
{
    for (int64_t j = 0; j < count; j++)
        to[j] = tide_narrow(x[j] * by);
}

/* x: exponentials of one row become its gradient. */
static void row_gradient(const struct part *p, int64_t row, float *x, float sum)
{
    int64_t words = p->head->words;
    int32_t target = p->targets[row];
    if (!p->narrow) {
        multiply(x, words, p->scale / sum);
        x[target] -= p->scale;
        return;
    }
    tide_bf16 *to = p->narrow + row * words;
    multiply_narrow(to, x, words, p->scale / sum);
    to[target] = tide_to_bf16(x[target] * (p->scale / sum) - p->scale);
}

static void part_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct part *p = context;
    int64_t words = p->head->words;
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        float *x = p->logits + i * words;
        int32_t target = p->targets[i];
        if (target < 0) {
            p->losses[i] = 0;
            if (p->narrow)
                memset(p->narrow + i * words, 0, (size_t)words * sizeof *p->narrow);
            else
                memset(x, 0, (size_t)words * sizeof *x);
            continue;
        }
        float chosen = x[target], most = largest(x, words), sum = exponentials(x, words, most);
        p->losses[i] = most + logf(sum) - chosen;
        if (p->scale != 0)
            row_gradient(p, i, x, sum);
    }
}

static int64_t counted(const int32_t *targets, int64_t rows)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        count += targets[i] >= 0;
    return count;
}

static const void *rows_of(const struct head *h, const void *x, int64_t first)
{
    return (const char *)x + (size_t)(first * h->columns) * tide_dtype_bytes(h->from);
}

/* Logits of rows [first, first + rows), part by part: their losses and, on the way back, gradients. */
static void chunk_forward(const struct tide_call *call, const struct head *h, const struct room *r,
                          const void *table, int64_t first, int64_t rows, enum tide_direction direction,
                          float scale)
{
    char *scratch = call->scratch;
    bool narrow = h->from == TIDE_BF16 && direction == TIDE_BACKWARD;
    for (int64_t i = 0; i < rows; i += h->part) {
        int64_t count = rows_from(i, rows, h->part);
        struct tide_product logits = logits_product(h, count);
        struct part p = {.head = h,
                         .logits = (void *)(scratch + r->logits),
                         .losses = (float *)call->scratch + first + i,
                         .narrow = narrow ? (tide_bf16 *)(scratch + r->gradient) + i * h->words : NULL,
                         .targets = (const int32_t *)call->in[TARGETS] + first + i,
                         .scale = scale};
        tide_matmul(call->matmuls, &logits, rows_of(h, call->in[X], first + i), table, NULL, p.logits,
                    scratch + r->rest);
        tide_parallel(count, 1, part_rows, &p);
    }
}

static void chunk_backward(const struct tide_call *call, const struct head *h, const struct room *r,
                           const void *table, int64_t first, int64_t rows)
{
    char *scratch = call->scratch;
    const void *gradient = scratch + r->gradient;
    struct tide_product to_x = x_grad_product(h, rows),
                        to_table = table_grad_product(h, rows, first > 0 || (call->adds >> TABLE & 1));
    if (call->in_grad[X])
        tide_matmul(call->matmuls, &to_x, gradient, table, NULL, (void *)rows_of(h, call->in_grad[X], first),
                    scratch + r->rest);
    if (call->in_grad[TABLE])
        tide_matmul(call->matmuls, &to_table, gradient, rows_of(h, call->in[X], first), NULL,
                    call->in_grad[TABLE], scratch + r->rest);
}

static void run(const struct tide_call *call, enum tide_direction direction)
{
    struct head h = head_of(call->graph, call->node);
    struct room r = room_of(call->matmuls, &h, direction);
    char *scratch = call->scratch;
    const float *losses = call->scratch;
    const void *table = call->in[TABLE];
    int64_t count = counted(call->in[TARGETS], h.rows);
    float scale = direction == TIDE_BACKWARD && count ? call->loss_scale / (float)count : 0;
    if (h.from == TIDE_BF16) {
        tide_rows_convert(scratch + r.table, TIDE_BF16, table, TIDE_F32, h.words * h.columns);
        table = scratch + r.table;
    }
    for (int64_t first = 0; first < h.rows; first += h.chunk) {
        int64_t rows = rows_from(first, h.rows, h.chunk);
        chunk_forward(call, &h, &r, table, first, rows, direction, scale);
        if (direction == TIDE_BACKWARD)
            chunk_backward(call, &h, &r, table, first, rows);
    }
    double sum = 0;
    for (int64_t i = 0; i < h.rows; i++)
        sum += losses[i];
    *(float *)call->out[0] = count ? (float)(sum / (double)count) : 0;
}

static void forward(const struct tide_call *call)
{
    run(call, TIDE_FORWARD);
}

static void backward(const struct tide_call *call)
{
    run(call, TIDE_BACKWARD);
}

static double work(const struct tide_graph *graph, const struct tide_node *node)
{
    struct head h = head_of(graph, node);
    return 2.0 * (double)h.rows * (double)h.columns * (double)h.words;
}

/* ---- reference */

static double logit(const struct tide_call *call, int64_t i, int64_t word)
{
    int64_t C = tide_tensor_columns(tide_in_tensor(call, X));
    double sum = 0;
    for (int64_t c = 0; c < C; c++)
        sum += tide_in(call, X, i * C + c) * tide_in(call, TABLE, word * C + c);
    return sum;
}

static double log_sum(const struct tide_call *call, int64_t i)
{
    double most = -INFINITY, sum = 0;
    for (int64_t word = 0; word < tide_in_tensor(call, TABLE)->dims[0]; word++)
        most = fmax(most, logit(call, i, word));
    for (int64_t word = 0; word < tide_in_tensor(call, TABLE)->dims[0]; word++)
        sum += exp(logit(call, i, word) - most);
    return most + log(sum); /* cppcheck-suppress invalidFunctionArg ; a table has words */
}

static void reference_forward(const struct tide_call *call)
{
    const int32_t *targets = call->in[TARGETS];
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)), count = counted(targets, rows);
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        if (targets[i] >= 0)
            sum += log_sum(call, i) - logit(call, i, targets[i]);
    tide_set_out(call, 0, 0, count ? sum / (double)count : 0);
}

/* Of the loss by the logit of one word in row i. */
static double logit_grad(const struct tide_call *call, int64_t i, int64_t word, double log_sum_i)
{
    const int32_t *targets = call->in[TARGETS];
    int64_t count = counted(targets, tide_tensor_rows(tide_in_tensor(call, X)));
    if (targets[i] < 0)
        return 0;
    return (exp(logit(call, i, word) - log_sum_i) - (word == targets[i])) * call->loss_scale / (double)count;
}

static void reference_backward(const struct tide_call *call)
{
    int64_t rows = tide_tensor_rows(tide_in_tensor(call, X)),
            C = tide_tensor_columns(tide_in_tensor(call, X)), words = tide_in_tensor(call, TABLE)->dims[0];
    reference_forward(call);
    for (int64_t i = 0; i < rows; i++) {
        double log_sum_i = log_sum(call, i);
        for (int64_t c = 0; c < C; c++) {
            double sum = 0;
            for (int64_t word = 0; word < words; word++)
                sum += logit_grad(call, i, word, log_sum_i) * tide_in(call, TABLE, word * C + c);
            tide_give_grad(call, X, i * C + c, sum);
        }
    }
    for (int64_t at = 0; at < words * C; at++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += logit_grad(call, i, at / C, log_sum(call, i)) * tide_in(call, X, i * C + at % C);
        tide_give_grad(call, TABLE, at, sum);
    }
}

const struct tide_op tide_op_of_head = {
    .name = "head",
    .shape = shape,
    .prepare = prepare,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
    .work = work,
    .reads_in = 1U << X | 1U << TABLE | 1U << TARGETS,
    .is_loss = true,
    .reference_forward = reference_forward,
    .reference_backward = reference_backward,
};

int tide_op_head(struct tide_graph *graph, int x, int table, int targets, int64_t rows)
{
    struct tide_node node = {
        .op = &tide_op_of_head, .in = {x, table, targets}, .in_count = 3, .numbers = {rows}};
    return tide_graph_append(graph, &node);
}
