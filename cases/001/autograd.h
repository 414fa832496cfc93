/*
 * autograd.h - tensors in an arena, a tape of operations, and an optimizer: the library of the trainer beside
 * it.
 *
 * Tensors of one iteration live in the global arena and are gone when it is reset; parameters and the
 * optimizer's state are allocated once, with calloc. A matrix has `rows` x `cols` doubles and, beside them,
 * as many of its gradient.
 */
#ifndef AUTOGRAD_H
#define AUTOGRAD_H

#include <stdbool.h>
#include <stddef.h>

struct tensor {
    int rows, cols;
    double *data, *grad;
};

/* What is changed about the program, to see whether it helps. */
enum fix {
    FIX_NONE,
    FIX_SUSPECTS,   /* optimizer state, tape and stray mallocs dealt with */
    FIX_NEXT_CHUNK, /* the arena walks to the chunk it has before it makes another */
};

void autograd_init(enum fix fix, size_t chunk_bytes);

/* The arena: memory of one iteration, zeroed. */
void *arena_alloc(size_t bytes);
/* Everything is free again, all chunks are kept. Every tenth time aggressively: all chunks but the first are
 * freed. */
void arena_reset(void);

struct tensor *parameter_new(int rows, int cols, unsigned *seed);

/* Each operation returns its result and puts itself on the tape. */
struct tensor *op_embed(struct tensor *table, const int *tokens, int count);     /* count x table.cols */
struct tensor *op_matmul(struct tensor *a, struct tensor *b, bool b_transposed); /* a b, or a b' */
struct tensor *op_add(struct tensor *a, struct tensor *b);
struct tensor *op_relu(struct tensor *a);
struct tensor *op_causal_softmax(struct tensor *scores);                    /* row t: columns 0 to t */
struct tensor *op_cross_entropy(struct tensor *logits, const int *targets); /* 1 x 1: the mean */

/* From the last operation back to the first. */
void tape_backward(void);
/* The tape is empty again. */
void tape_reset(void);

/* One step of Adam over all parameters; gradients are zero afterwards. */
void adam_step(double learning_rate);

#endif
