/*
 * cpu_embed.c - embeddings on processors.
 *
 * In the backward pass, the rows of one token are added in order, and each thread has its own columns, so the
 * bits do not depend on the number of threads. All rows are added before the sum is rounded to the gradient's
 * type.
 */
#include "rt/cpu/kernels.h"
#include "rt/cpu/rows.h"
#include "rt/cpu/threads.h"
#include "rt/op_embed.h"

#include <string.h>

static enum tide_dtype stored(const struct tide_embedding *e, int operand)
{
    return e->call->graph->tensors[e->call->node->in[operand]].dtype;
}

static const char *row_of(const struct tide_embedding *e, int operand, int64_t row)
{
    return (const char *)e->call->in[operand] + (size_t)row * tide_row_bytes(stored(e, operand), e->columns);
}

static void add_row(float *y, const char *row, enum tide_dtype dtype, int64_t columns)
{
    const float *wide = (const void *)row;
    for (int64_t j = 0; j < columns; j++)
        y[j] += dtype == TIDE_F32 ? wide[j] : (float)tide_row_number(row, dtype, columns, j);
}

static bool is_streamed(const struct tide_graph *graph, const struct tide_node *node)
{
    return graph->tensors[node->in[TABLE]].role == TIDE_STREAMED;
}

/* For a streamed table: asks for each token's row; scratch has room for one. */
static void fetch_rows(const struct tide_embedding *e)
{
    const struct tide_call *call = e->call;
    for (int64_t i = 0; i < e->rows; i++) {
        float *y = (float *)call->out[0] + i * e->columns;
        call->source(call->source_context, call->node->in[TABLE], e->tokens[i], 1, call->scratch);
        tide_rows_convert_here(y, TIDE_F32, call->scratch, stored(e, TABLE), e->columns);
    }
}

static void forward_rows(void *context, int64_t first, int64_t last)
{
    const struct tide_embedding *e = context;
    for (int64_t i = first; i < last; i++) {
        float *y = (float *)e->call->out[0] + i * e->columns;
        if (e->call->in[TABLE])
            tide_rows_convert_here(y, TIDE_F32, row_of(e, TABLE, e->tokens[i]), stored(e, TABLE), e->columns);
        add_row(y, row_of(e, PLACES, tide_embedding_place(e, i)), stored(e, PLACES), e->columns);
    }
}

static void forward(const struct tide_call *call)
{
    struct tide_embedding e = tide_embedding_of(call);
    if (is_streamed(call->graph, call->node))
        fetch_rows(&e);
    tide_parallel(e.rows, 64, forward_rows, &e);
}

/* Which rows add to each row of the table, or of the places. */
struct adding {
    const struct tide_embedding *of;
    int operand;
    int32_t *first; /* for each row of the operand, the first row that adds to it; -1: none */
    int32_t *next;  /* for each row that adds, the next one; -1: it is the last */
};

static int64_t added_to(const struct adding *a, int64_t row)
{
    return a->operand == TABLE ? a->of->tokens[row] : tide_embedding_place(a->of, row);
}

static void list_rows(struct adding *a)
{
    const struct tide_call *call = a->of->call;
    int64_t rows = call->graph->tensors[call->node->in[a->operand]].dims[0];
    a->first = call->scratch;
    a->next = a->first + rows;
    memset(a->first, -1, (size_t)rows * sizeof *a->first);
    for (int64_t i = a->of->rows - 1; i >= 0; i--) {
        a->next[i] = a->first[added_to(a, i)];
        a->first[added_to(a, i)] = (int32_t)i;
    }
}

enum { WIDTH = 256 }; /* columns summed at a time */

static void add_list(const struct adding *a, int64_t row, int64_t column, int64_t count)
{
    const struct tide_embedding *e = a->of;
    enum tide_dtype dtype = stored(e, a->operand);
    float sums[WIDTH];
    char *to = (char *)e->call->in_grad[a->operand] +
               (size_t)(added_to(a, row) * e->columns + column) * tide_dtype_bytes(dtype);
    tide_rows_convert_here(sums, TIDE_F32, to, dtype, count);
    for (int64_t i = row; i >= 0; i = a->next[i]) {
        const float *g = (const float *)e->call->out_grad[0] + i * e->columns + column;
        for (int64_t j = 0; j < count; j++)
            sums[j] += g[j];
    }
    tide_rows_convert_here(to, dtype, sums, TIDE_F32, count);
}

static void backward_columns(void *context, int64_t first, int64_t last)
{
    const struct adding *a = context;
    for (int64_t j = first; j < last; j += WIDTH)
        for (int64_t i = 0; i < a->of->rows; i++)
            if (a->first[added_to(a, i)] == i)
                add_list(a, i, j, last - j < WIDTH ? last - j : WIDTH);
}

static void backward(const struct tide_call *call)
{
    struct tide_embedding e = tide_embedding_of(call);
    for (int i = TABLE; i <= PLACES; i++) {
        struct adding a = {.of = &e, .operand = i};
        if (!call->in_grad[i])
            continue;
        if (!(call->adds >> i & 1))
            memset(call->in_grad[i], 0, call->graph->tensors[call->node->in[i]].bytes);
        list_rows(&a);
        tide_parallel(e.columns, 64, backward_columns, &a);
    }
}

static size_t scratch(const struct tide_need *n)
{
    const struct tide_tensor *table = &n->graph->tensors[n->node->in[TABLE]];
    int64_t tokens = table->dims[0], places = n->graph->tensors[n->node->in[PLACES]].dims[0],
            rows = tide_tensor_count(&n->graph->tensors[n->node->in[TOKENS]]);
    if (n->direction == TIDE_FORWARD)
        return is_streamed(n->graph, n->node) ? tide_row_bytes(table->dtype, tide_tensor_columns(table)) : 0;
    return (size_t)((tokens > places ? tokens : places) + rows) * sizeof(int32_t);
}

const struct tide_cpu_kernels tide_cpu_embed = {
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
