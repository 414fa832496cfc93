#include "autograd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS_MOST = 64, AGGRESSIVE_EVERY = 10 };

static enum fix the_fix;

static void *must(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "train: out of memory\n");
    exit(1);
}

/* ---------------------------------------------------------------------------------------------------- arena
 */

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) char data[];
};

static struct {
    struct chunk *first, *current;
    size_t chunk_bytes;
    int resets;
} arena;

static struct chunk *chunk_new(void)
{
    struct chunk *chunk = must(malloc(sizeof *chunk + arena.chunk_bytes));
    chunk->next = NULL;
    chunk->used = 0;
    chunk->size = arena.chunk_bytes;
    return chunk;
}

void *arena_alloc(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (arena.current->used + bytes > arena.current->size) {
        if (the_fix == FIX_NEXT_CHUNK && arena.current->next) {
            arena.current = arena.current->next;
            arena.current->used = 0;
        } else {
            arena.current->next = chunk_new();
            arena.current = arena.current->next;
        }
    }
    char *memory = arena.current->data + arena.current->used;
    arena.current->used += bytes;
    return memset(memory, 0, bytes);
}

/* Frees what follows the first chunk. */
static void arena_shrink(void)
{
    for (struct chunk *chunk = arena.first->next, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    arena.first->next = NULL;
}

/* ---------------------------------------------------------------------------------------------------- tape
 */

struct node {
    void (*backward)(const struct node *node);
    struct tensor *out, *a, *b;
    const int *tokens;
    bool transposed;
};

static struct {
    struct node *nodes;
    size_t count, capacity;
} tape;

static struct tensor *tape_push(struct node node, int rows, int cols)
{
    if (tape.count == tape.capacity) {
        tape.capacity = tape.capacity ? 2 * tape.capacity : 16;
        tape.nodes = must(realloc(tape.nodes, tape.capacity * sizeof *tape.nodes));
    }
    node.out = arena_alloc(sizeof *node.out);
    size_t bytes = (size_t)rows * (size_t)cols * sizeof(double);
    *node.out = (struct tensor){rows, cols, arena_alloc(bytes), arena_alloc(bytes)};
    tape.nodes[tape.count++] = node;
    return node.out;
}

void tape_backward(void)
{
    tape.nodes[tape.count - 1].out->grad[0] = 1;
    for (size_t i = tape.count; i-- > 0;)
        tape.nodes[i].backward(&tape.nodes[i]);
}

void tape_reset(void)
{
    tape.count = 0;
    if (the_fix != FIX_SUSPECTS)
        return;
    free(tape.nodes);
    tape.nodes = NULL;
    tape.capacity = 0;
}

/* ----------------------------------------------------------------------------------------------------
 * operations */

/* c (n x m) += a (n x k) b (k x m), each with its own strides, so that transposes cost no copy */
static void multiply(double *c, const double *a, int a_row, int a_col, const double *b, int b_row, int b_col,
                     int n, int k, int m)
{
    for (int i = 0; i < n; i++)
        for (int l = 0; l < k; l++) {
            double factor = a[i * a_row + l * a_col];
            for (int j = 0; j < m; j++)
                c[i * m + j] += factor * b[l * b_row + j * b_col];
        }
}

static void matmul_backward(const struct node *n)
{
    struct tensor *a = n->a, *b = n->b, *out = n->out;
    int k = a->cols, m = out->cols;
    int b_row = n->transposed ? 1 : m, b_col = n->transposed ? k : 1;
    multiply(a->grad, out->grad, m, 1, b->data, b_col, b_row, a->rows, m, k);
    if (n->transposed)
        multiply(b->grad, out->grad, 1, m, a->data, k, 1, m, a->rows, k);
    else
        multiply(b->grad, a->data, 1, k, out->grad, m, 1, k, a->rows, m);
}

struct tensor *op_matmul(struct tensor *a, struct tensor *b, bool b_transposed)
{
    int m = b_transposed ? b->rows : b->cols, k = a->cols;
    struct tensor *out = tape_push(
        (struct node){.backward = matmul_backward, .a = a, .b = b, .transposed = b_transposed}, a->rows, m);
    multiply(out->data, a->data, k, 1, b->data, b_transposed ? 1 : m, b_transposed ? k : 1, a->rows, k, m);
    return out;
}

static void embed_backward(const struct node *n)
{
    for (int i = 0; i < n->out->rows; i++)
        for (int j = 0; j < n->out->cols; j++)
            n->a->grad[n->tokens[i] * n->a->cols + j] += n->out->grad[i * n->out->cols + j];
}

struct tensor *op_embed(struct tensor *table, const int *tokens, int count)
{
    struct tensor *out = tape_push((struct node){.backward = embed_backward, .a = table, .tokens = tokens},
                                   count, table->cols);
    for (int i = 0; i < count; i++)
        memcpy(out->data + i * table->cols, table->data + tokens[i] * table->cols,
               (size_t)table->cols * sizeof(double));
    return out;
}

static void add_backward(const struct node *n)
{
    for (int i = 0; i < n->out->rows * n->out->cols; i++) {
        n->a->grad[i] += n->out->grad[i];
        n->b->grad[i] += n->out->grad[i];
    }
}

struct tensor *op_add(struct tensor *a, struct tensor *b)
{
    struct tensor *out = tape_push((struct node){.backward = add_backward, .a = a, .b = b}, a->rows, a->cols);
    for (int i = 0; i < a->rows * a->cols; i++)
        out->data[i] = a->data[i] + b->data[i];
    return out;
}

static void relu_backward(const struct node *n)
{
    for (int i = 0; i < n->out->rows * n->out->cols; i++)
        n->a->grad[i] += n->out->data[i] > 0 ? n->out->grad[i] : 0;
}

struct tensor *op_relu(struct tensor *a)
{
    struct tensor *out = tape_push((struct node){.backward = relu_backward, .a = a}, a->rows, a->cols);
    for (int i = 0; i < a->rows * a->cols; i++)
        out->data[i] = a->data[i] > 0 ? a->data[i] : 0;
    return out;
}

/* The first `count` of a row, as probabilities. */
static void softmax(const double *row, int count, double *ret)
{
    double top = row[0], sum = 0;
    for (int j = 1; j < count; j++)
        top = fmax(top, row[j]);
    for (int j = 0; j < count; j++)
        sum += ret[j] = exp(row[j] - top);
    for (int j = 0; j < count; j++)
        ret[j] /= sum;
}

static void causal_softmax_backward(const struct node *n)
{
    int cols = n->out->cols;
    for (int i = 0; i < n->out->rows; i++) {
        const double *p = n->out->data + i * cols, *g = n->out->grad + i * cols;
        double dot = 0;
        for (int j = 0; j <= i; j++)
            dot += p[j] * g[j];
        for (int j = 0; j <= i; j++)
            n->a->grad[i * cols + j] += p[j] * (g[j] - dot);
    }
}

struct tensor *op_causal_softmax(struct tensor *scores)
{
    struct tensor *out = tape_push((struct node){.backward = causal_softmax_backward, .a = scores},
                                   scores->rows, scores->cols);
    for (int i = 0; i < scores->rows; i++)
        softmax(scores->data + i * scores->cols, i + 1, out->data + i * scores->cols);
    return out;
}

/* The probabilities of one row: one of the stray mallocs that were suspected. */
static double *row_take(int cols)
{
    size_t bytes = (size_t)cols * sizeof(double);
    return the_fix == FIX_SUSPECTS ? arena_alloc(bytes) : must(malloc(bytes));
}

static void row_give(double *row)
{
    if (the_fix != FIX_SUSPECTS)
        free(row);
}

static void cross_entropy_backward(const struct node *n)
{
    int rows = n->a->rows, cols = n->a->cols;
    double *p = row_take(cols);
    for (int i = 0; i < rows; i++) {
        softmax(n->a->data + i * cols, cols, p);
        p[n->tokens[i]] -= 1;
        for (int j = 0; j < cols; j++)
            n->a->grad[i * cols + j] += n->out->grad[0] * p[j] / rows;
    }
    row_give(p);
}

struct tensor *op_cross_entropy(struct tensor *logits, const int *targets)
{
    struct tensor *out =
        tape_push((struct node){.backward = cross_entropy_backward, .a = logits, .tokens = targets}, 1, 1);
    double *p = row_take(logits->cols);
    for (int i = 0; i < logits->rows; i++) {
        softmax(logits->data + i * logits->cols, logits->cols, p);
        out->data[0] -= log(fmax(p[targets[i]], 1e-12)) / logits->rows;
    }
    row_give(p);
    return out;
}

/* ----------------------------------------------------------------------------------------------------
 * optimizer */

static struct {
    struct tensor *parameters[PARAMETERS_MOST];
    double *m[PARAMETERS_MOST], *v[PARAMETERS_MOST]; /* first and second moments */
    int count, t;
} adam;

static size_t parameter_size(int i)
{
    return (size_t)adam.parameters[i]->rows * (size_t)adam.parameters[i]->cols;
}

struct tensor *parameter_new(int rows, int cols, unsigned *seed)
{
    if (adam.count == PARAMETERS_MOST)
        must(NULL);
    int i = adam.count++;
    struct tensor *t = adam.parameters[i] = must(calloc(1, sizeof *t));
    *t = (struct tensor){.rows = rows, .cols = cols};
    size_t n = parameter_size(i);
    t->data = must(calloc(n, sizeof(double)));
    t->grad = must(calloc(n, sizeof(double)));
    adam.m[i] = must(calloc(n, sizeof(double)));
    adam.v[i] = must(calloc(n, sizeof(double)));
    for (size_t k = 0; k < n; k++)
        t->data[k] = (rand_r(seed) / (double)RAND_MAX - 0.5) * 2 / sqrt(rows);
    return t;
}

void adam_step(double learning_rate)
{
    adam.t++;
    double correct_m = 1 - pow(0.9, adam.t), correct_v = 1 - pow(0.999, adam.t);
    for (int i = 0; i < adam.count; i++) {
        struct tensor *p = adam.parameters[i];
        double *m = adam.m[i], *v = adam.v[i];
        for (size_t k = 0; k < parameter_size(i); k++) {
            m[k] = 0.9 * m[k] + 0.1 * p->grad[k];
            v[k] = 0.999 * v[k] + 0.001 * p->grad[k] * p->grad[k];
            p->data[k] -= learning_rate * (m[k] / correct_m) / (sqrt(v[k] / correct_v) + 1e-8);
            p->grad[k] = 0;
        }
    }
}

/* Makes the optimizer's state anew, in case it is what grows. */
static void adam_rebuild(void)
{
    for (int i = 0; i < adam.count; i++) {
        free(adam.m[i]);
        free(adam.v[i]);
        adam.m[i] = must(calloc(parameter_size(i), sizeof(double)));
        adam.v[i] = must(calloc(parameter_size(i), sizeof(double)));
    }
    adam.t = 0;
}

/* ---------------------------------------------------------------------------------------------------- the
 * whole */

void autograd_init(enum fix fix, size_t chunk_bytes)
{
    the_fix = fix;
    arena.chunk_bytes = chunk_bytes;
    arena.first = arena.current = chunk_new();
}

void arena_reset(void)
{
    arena.current = arena.first;
    arena.first->used = 0;
    if (++arena.resets % AGGRESSIVE_EVERY != 0)
        return;
    arena_shrink();
    if (the_fix == FIX_SUSPECTS)
        adam_rebuild();
}
