/*
 * op.h - what an operator is, and the ones there are.
 *
 * An operator is one file (op_NAME.c) with its shape, its work, what its backward pass reads, and a plain
 * reference of both passes (reference.h), which says what is meant and which tests hold kernels to. How a
 * device computes it is another file: cpu/cpu_NAME.c (cpu/kernels.h). What the two share, as which operand is
 * which, is in op_NAME.h. To add one: its files, a line in the table of op.c and in those of devices, the
 * function below that appends it to a graph, and a shape at which tests/unit/test_rt_ops.c tries it, which
 * asks for one.
 *
 * The forward pass reads in[], writes out[]. The backward pass reads out_grad[] and, for each i with
 * in_grad[i] not NULL, those of in[] and out[] that the masks of i name, and writes the gradient of in[i], or
 * adds to it when bit i of `adds` is set. An operator that decodes has no backward pass, and writes to those
 * of in[] that are states; one that learns writes to those that are measured; one that keeps has states as
 * out[], which need not be written again until a parameter changes.
 */
#ifndef TIDE_OP_H
#define TIDE_OP_H

#include "rt/graph.h"

enum tide_direction { TIDE_FORWARD, TIDE_BACKWARD };
enum { TIDE_QUARTERS = 4 };

struct tide_matmuls;

/* Fills `to` with rows of a streamed parameter (graph.h), in its type. -1: they cannot be had; what the
 * program computes from them will not be read. */
typedef int tide_source(void *context, int tensor, int64_t first, int64_t rows, void *to);

/* An operator's operands, in memory that can be read: of references, and of kernels on processors. */
struct tide_call {
    const struct tide_graph *graph;
    const struct tide_node *node;
    const void *in[TIDE_OPERANDS];
    void *out[TIDE_OUTPUTS];
    void *in_grad[TIDE_OPERANDS];
    const void *out_grad[TIDE_OUTPUTS];
    unsigned adds;
    float loss_scale; /* gradients of the loss are multiplied by this: 1 / micro-batches */
    bool learns;      /* the forward pass of a step, once for each micro-batch: what is measured changes */
    /* Of kernels. source: of those of in[] that are NULL (tide_op.streams) */
    tide_source *source;
    void *source_context;
    const struct tide_matmuls *matmuls;
    void *scratch;
    size_t scratch_bytes;
};

struct tide_op {
    const char *name;
    /* Checks the inputs, makes the outputs. -1 with the graph's error set. */
    int (*shape)(struct tide_graph *graph, struct tide_node *node);
    /* What is meant: one thread, sums in f64, no scratch. NULL: there is no backward pass. */
    void (*reference_forward)(const struct tide_call *call);
    void (*reference_backward)(const struct tide_call *call);
    /* Work of the forward pass in floating-point operations, for choosing what to recompute: so many for each
     * number of in[0], or where there is a function, what it says. */
    double each;
    double (*work)(const struct tide_graph *graph, const struct tide_node *node);
    /* What the backward pass reads for the gradient of in[i]: bit k: in[k], out[k]. */
    unsigned reads_in[TIDE_OPERANDS], reads_out[TIDE_OPERANDS];
    unsigned gathers; /* of the forward pass: bit i: it reads only those rows of in[i] that in[0] names */
    unsigned
        streams;  /* bit i: where in[i] is streamed, a kernel asks for those rows of it that it works on */
    bool ends;    /* the forward pass can add something to what it writes, and take ReLU of it */
    bool keeps;   /* what it makes, of parameters alone, are states */
    bool passes;  /* gradients go through unchanged to in[0] and in[1]: there is nothing to compute */
    bool is_loss; /* in training its backward also does what its forward does */
};

/* The operator's own operands of a node: without what is added. */
static inline int tide_node_operands(const struct tide_node *node)
{
    return node->added ? node->added : node->in_count;
}

static inline double tide_node_work(const struct tide_graph *graph, const struct tide_node *node)
{
    return node->op->work ? node->op->work(graph, node)
                          : node->op->each * (double)tide_tensor_count(&graph->tensors[node->in[0]]);
}

/* What is added to what a node writes; NULL: nothing. */
static inline const void *tide_added(const struct tide_call *call)
{
    return call->node->added ? call->in[call->node->added] : NULL;
}

/* All of them, NULL-terminated. */
extern const struct tide_op *const tide_ops[];

extern const struct tide_op tide_op_of_embed, tide_op_of_norm, tide_op_of_linear, tide_op_of_gelu,
    tide_op_of_attention, tide_op_of_add, tide_op_of_head, tide_op_of_cached, tide_op_of_logits,
    tide_op_of_scale, tide_op_of_conv, tide_op_of_winograd, tide_op_of_depthwise, tide_op_of_relu,
    tide_op_of_tanh, tide_op_of_pool, tide_op_of_gate, tide_op_of_batchnorm, tide_op_of_fold, tide_op_of_soft,
    tide_op_of_squared;

/* ---- appending to a graph; each returns the output's tensor, -1 after an error */

/* tokens (N) i32 of sequences of length T -> (N, C) f32: table[token] + places[index in the sequence].
 * positions (N) i32: those indexes; -1: sequences follow each other, each from 0 on. */
int tide_op_embed(struct tide_graph *graph, int tokens, int table, int places, int positions,
                  int64_t sequence);

/* (N, C) f32 -> (N, C) in the graph's compute type */
int tide_op_norm(struct tide_graph *graph, int x, int weight, int bias, float epsilon);

/* (N, I) -> (N, O): x weight (I, O) + bias (O); -1: without. wide: f32, else the compute type. Where x has
 * columns of which I is a multiple, a row of it is that many rows of x: (B cells, C) is read as (B, cells C).
 */
int tide_op_linear(struct tide_graph *graph, int x, int weight, int bias, bool wide);

/* The same with a weight that lies as (O, I): x weight^T. */
int tide_op_linear_transposed(struct tide_graph *graph, int x, int weight, int bias, bool wide);

/* (N, C) times a number */
int tide_op_scale(struct tide_graph *graph, int x, float by);

/* The tanh form. */
int tide_op_gelu(struct tide_graph *graph, int x);

/* (N, 3C) of sequences of length T -> (N, C): causal, all heads. T x T is never stored. lengths (S) i32: of
 * sequences that follow each other, T rows or fewer each; -1: all have T. */
int tide_op_attention(struct tide_graph *graph, int qkv, int lengths, int64_t heads, int64_t sequence);

/* (N, C) + (N, C) of one type */
int tide_op_add(struct tide_graph *graph, int a, int b);

/* What becomes of a row's log-probability of its target. */
struct tide_row_loss {
    int inputs; /* numbers that it takes beside: one of each row, from as many tensors (N) f32 */
    bool means; /* the loss is the mean over rows with a target; else their sum */
    /* Of a row; *ret_slope: its derivative by the log-probability. constants: a tensor of f32, or NULL. */
    float (*loss)(float log_probability, const float *inputs, const float *constants, float *ret_slope);
};

extern const struct tide_row_loss tide_cross_entropy;

enum { TIDE_ROW_INPUTS = 4 };

struct tide_head {
    int64_t rows, tokens; /* logits exist for so many rows at a time, and of those for so many tokens */
    const struct tide_row_loss *loss;
    int inputs[TIDE_ROW_INPUTS]; /* as many as the loss takes */
    int constants;               /* -1: none */
    float temperature;           /* logits are divided by it; 0: 1 */
};

/* (N, C), table (V, C), targets (N) i32, -1: none -> the loss (1) f32, and the log-probabilities (N) f32 of
 * targets, 0 where there is none: the tensor after the loss. Rows without a target cost nothing. */
int tide_op_head(struct tide_graph *graph, int x, int table, int targets, const struct tide_head *how);

/* (N, 3C), the KV cache: keys and values (S, W, C), states with S slots of W places; slots and positions (N)
 * i32 -> (N, C). A row's key and value go to its position in its slot, and it attends to that and those
 * before. A row of slot -1 is left out. Rows of a slot follow each other, by position. */
int tide_op_cached(struct tide_graph *graph, int qkv, int keys, int values, int slots, int positions,
                   int64_t heads);

/* (N, C), table (V, C) -> (N, V) f32 */
int tide_op_logits(struct tide_graph *graph, int x, int table);

/* ---- nets over boards: rows are cells, (B cells, C), f32 where nothing else is said */

/* 3x3, beyond the edges of a board zeros. x (N, I): the cells of boards of so many columns and rows, board
 * after board, line by line; weight (9 I, O): row (ky * 3 + kx) * I + i; bias (O), -1: without -> (N, O) in
 * the compute type. */
int tide_op_conv(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows);

/* The same, each channel by itself: (N, C), weight (9, C), bias (C) or -1 -> (N, C) in x's type. */
int tide_op_depthwise(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows);

int tide_op_relu(struct tide_graph *graph, int x);

/* relu(x + added); -1: of x. In a program that does not train, the node that makes x does it as it writes, if
 * it is the last one and can: x is then not what it was. */
int tide_op_relu_sum(struct tide_graph *graph, int x, int added);

int tide_op_tanh(struct tide_graph *graph, int x);

/* (B cells, C) -> (B, C): the mean of each board. */
int tide_op_pool(struct tide_graph *graph, int x, int64_t cells);

/* (B cells, C), gate (B, C): each board times the sigmoid of its gate. */
int tide_op_gate(struct tide_graph *graph, int x, int gate);

/* A norm over the columns of a batch: all (C). mean and variance: running statistics, which are measured
 * (graph.h). */
struct tide_batchnorm {
    int weight, bias, mean, variance;
    float epsilon;
};

/* (N, C) -> (N, C) with the statistics of the batch, of which the running ones learn. */
int tide_op_batchnorm(struct tide_graph *graph, int x, const struct tide_batchnorm *norm);

/* weight (K, O) of a product and the norm after it, with its running statistics -> (K, O), and the bias (O)
 * that goes with it: the tensor after. Forward only. by_points: of a 3x3 convolution's weight its points
 * (winograd.h). */
int tide_op_fold(struct tide_graph *graph, int weight, const struct tide_batchnorm *norm, bool by_points);

/* A convolution by the points of its weight, f32, with a bias. Forward only. */
int tide_op_winograd(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows);

/* A convolution with the norm after it folded in; by points where that is faster. Forward only. */
int tide_op_conv_folded(struct tide_graph *graph, int x, int weight, const struct tide_batchnorm *norm,
                        int64_t columns, int64_t rows);

/* Losses, means over B: cross-entropy of logits (B, M) with targets (B, M) f32 that are probabilities, and
 * squared errors of x (B, ...); times a weight. */
int tide_op_soft(struct tide_graph *graph, int logits, int targets, float weight);
int tide_op_squared(struct tide_graph *graph, int x, int targets, float weight);

#endif
