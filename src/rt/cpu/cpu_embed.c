/*
 * cpu_embed.c - embeddings on processors.
 *
 * In the backward pass rows are added in their order, each thread at columns of its own, so that a token that
 * occurs twice gets the same bits whatever the number of threads.
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

static void forward_rows(void *context, int64_t first, int64_t last, int thread)
{
    const struct tide_embedding *e = context;
    (void)thread;
    for (int64_t i = first; i < last; i++) {
        float *y = (float *)e->call->out[0] + i * e->columns;
        tide_rows_convert_here(y, TIDE_F32, row_of(e, TABLE, e->tokens[i]), stored(e, TABLE), e->columns);
        add_row(y, row_of(e, PLACES, tide_embedding_place(e, i)), stored(e, PLACES), e->columns);
    }
}

static void forward(const struct tide_call *call)
{
    struct tide_embedding e = tide_embedding_of(call);
    tide_parallel(e.rows, 64, forward_rows, &e);
}

static void backward_columns(void *context, int64_t first, int64_t last, int thread)
{
    const struct tide_embedding *e = context;
    (void)thread;
    float *table = e->call->in_grad[TABLE], *places = e->call->in_grad[PLACES];
    for (int64_t i = 0; i < e->rows; i++) {
        const float *g = (const float *)e->call->out_grad[0] + i * e->columns;
        float *row = table ? table + e->tokens[i] * e->columns : NULL;
        float *place = places ? places + tide_embedding_place(e, i) * e->columns : NULL;
        for (int64_t j = first; row && j < last; j++)
            row[j] += g[j];
        for (int64_t j = first; place && j < last; j++)
            place[j] += g[j];
    }
}

static void backward(const struct tide_call *call)
{
    struct tide_embedding e = tide_embedding_of(call);
    for (int i = TABLE; i <= PLACES; i++)
        if (call->in_grad[i] && !(call->adds >> i & 1))
            memset(call->in_grad[i], 0, tide_tensor_gradient_bytes(&call->graph->tensors[call->node->in[i]]));
    tide_parallel(e.columns, 64, backward_columns, &e);
}

const struct tide_cpu_kernels tide_cpu_embed = {
    .op = &tide_op_of_embed,
    .forward = forward,
    .backward = backward,
};
