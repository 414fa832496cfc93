/*
 * op.h - what an operator is, and the list of all operators.
 *
 * An operator is one file, op_NAME.c: its shape, its work, what its backward pass reads, and a plain
 * reference of both passes (reference.h). The reference defines the meaning; tests compare kernels with it. A
 * device's kernel is another file: cpu/cpu_NAME.c (cpu/kernels.h). What both need, such as the order of
 * operands, is in op_NAME.h. Operators of one sort share a file. To add an operator: write these files, add
 * it to TIDE_EACH_OP, declare the function below that appends it to a graph, and add a shape to
 * tests/unit/op_trials.h; test_rt_ops fails without one.
 *
 * The forward pass reads in[] and writes out[]. The backward pass reads out_grad[] and, for each i with
 * in_grad[i] not NULL, the in[] and out[] that the masks of i name. It writes the gradient of in[i], or adds
 * to it if bit i of `adds` is set. Three kinds of operators do more. One that decodes has no backward pass
 * and writes to those in[] that are states. One that learns writes to those in[] that are measured. One that
 * keeps has states as out[], which stay valid until a parameter changes.
 */
#ifndef TIDE_OP_H
#define TIDE_OP_H

#include "rt/graph.h"

enum tide_direction { TIDE_FORWARD, TIDE_BACKWARD };
enum { TIDE_QUARTERS = 4 };

/* Fills `to` with rows of a streamed parameter (graph.h), in its type. Returns -1 if it cannot; then nobody
 * reads what the program computes from them. */
typedef int tide_source(void *context, int tensor, int64_t first, int64_t rows, void *to);

/* An operator's operands as plain pointers, for references and for kernels on processors. */
struct tide_call {
    const struct tide_graph *graph;
    const struct tide_node *node;
    const void *in[TIDE_OPERANDS];
    void *out[TIDE_OUTPUTS];
    void *in_grad[TIDE_OPERANDS];
    const void *out_grad[TIDE_OUTPUTS];
    unsigned adds;
    float loss_scale; /* gradients of the loss are multiplied by this: 1 / micro-batches */
    bool learns; /* in the forward pass of a training step, once per micro-batch: measured tensors are updated
                  */
    /* For kernels only. source: fills those in[] that are NULL (tide_op.streams). */
    tide_source *source;
    void *source_context;
    void *scratch;
    size_t scratch_bytes;
};

struct tide_op {
    const char *name;
    /* Checks the inputs and makes the outputs. Returns -1 with the graph's error set. */
    int (*shape)(struct tide_graph *graph, struct tide_node *node);
    /* The meaning: one thread, sums in f64, no scratch. reference_backward is NULL if there is no backward
     * pass. */
    void (*reference_forward)(const struct tide_call *call);
    void (*reference_backward)(const struct tide_call *call);
    /* Floating-point operations of the forward pass, for choosing what to recompute: work() if it is set,
     * else `each` per number of in[0]. */
    double each;
    double (*work)(const struct tide_graph *graph, const struct tide_node *node);
    /* What the backward pass reads for the gradient of in[i]. Bit k stands for in[k] or out[k]. */
    unsigned reads_in[TIDE_OPERANDS], reads_out[TIDE_OPERANDS];
    unsigned streams; /* bit i: if in[i] is streamed, the kernel asks the source for the rows it works on */
    bool ends;        /* the forward pass can add a tensor to its result and apply ReLU before it writes */
    bool keeps;       /* its outputs depend on parameters alone and are states */
    bool passes;      /* the gradient goes unchanged to in[0] and in[1]: nothing to compute */
    bool is_loss;     /* in training the backward kernel also does the forward pass, and never adds to the
                         gradient of in[0], which nothing may read afterwards */
};

/* Returns how many operands are the operator's own, without the added tensor. */
static inline int tide_node_operands(const struct tide_node *node)
{
    return node->added ? node->added : node->in_count;
}

static inline double tide_node_work(const struct tide_graph *graph, const struct tide_node *node)
{
    return node->op->work ? node->op->work(graph, node)
                          : node->op->each * (double)tide_tensor_count(&graph->tensors[node->in[0]]);
}

/* Returns the tensor to add to a node's result; NULL: none. */
static inline const void *tide_added(const struct tide_call *call)
{
    return call->node->added ? call->in[call->node->added] : NULL;
}

/* Returns what the gradient of in[i] is added to, which is itself; NULL: nothing, it is written. */
static inline const void *tide_grad_before(const struct tide_call *call, int i)
{
    return call->adds >> i & 1 ? call->in_grad[i] : NULL;
}

/* Calls DO(NAME) for every operator; each has its tide_op_of_NAME. */
/* clang-format off */
#define TIDE_EACH_OP(DO)                                                                                     \
    DO(embed) DO(norm) DO(linear) DO(gelu) DO(attention) DO(add) DO(head) DO(cached) DO(scale)    \
    DO(conv) DO(depthwise) DO(relu) DO(tanh) DO(pool) DO(gate) DO(batchnorm) DO(fold) DO(soft) DO(squared)   \
    DO(winograd)
/* clang-format on */
#define TIDE_DECLARE_OP(name) extern const struct tide_op tide_op_of_##name;
TIDE_EACH_OP(TIDE_DECLARE_OP)

/* ---- appending to a graph; each function returns the output's tensor, or -1 after an error */

/* tokens (N) i32 of sequences of length T -> (N, C) f32: table[token] + places[index in the sequence].
 * positions (N) i32: those indexes; -1: sequences follow each other and each starts at 0. */
int tide_op_embed(struct tide_graph *graph, int tokens, int table, int places, int positions,
                  int64_t sequence);

/* (N, C) f32 -> (N, C) in the graph's compute type */
int tide_op_norm(struct tide_graph *graph, int x, int weight, int bias, float epsilon);

/* (N, I) -> (N, O): x weight (I, O) + bias (O); bias -1: none. wide: the output is f32, else the compute
 * type. If I is k times x's columns, k rows of x are read as one: (B cells, C) as (B, cells C). */
int tide_op_linear(struct tide_graph *graph, int x, int weight, int bias, bool wide);

/* The same with a weight stored as (O, I): x weight^T. With the table of tokens, the logits. */
int tide_op_linear_transposed(struct tide_graph *graph, int x, int weight, int bias, bool wide);

/* (N, C) times a number */
int tide_op_scale(struct tide_graph *graph, int x, float by);

/* The tanh form. */
int tide_op_gelu(struct tide_graph *graph, int x);

/* (N, 3C) of sequences of length T -> (N, C): causal, all heads. T x T is never stored. lengths (S) i32: the
 * rows of each of the consecutive sequences, at most T each; -1: all have T. */
int tide_op_attention(struct tide_graph *graph, int qkv, int lengths, int64_t heads, int64_t sequence);

/* (N, C) + (N, C) of the same type */
int tide_op_add(struct tide_graph *graph, int a, int b);

/* How a row's loss follows from the log-probability of its target. */
struct tide_row_loss {
    int inputs; /* how many more numbers per row it takes, each from its own tensor (N) f32 */
    bool means; /* the loss is the mean over rows with a target; else their sum */
    /* The loss of one row. *ret_slope: its derivative by the log-probability. constants: f32, or NULL. */
    float (*loss)(float log_probability, const float *inputs, const float *constants, float *ret_slope);
};

extern const struct tide_row_loss tide_cross_entropy;

enum { TIDE_ROW_INPUTS = 4 };

struct tide_head {
    int64_t rows, tokens; /* logits are computed for this many rows and tokens at a time */
    const struct tide_row_loss *loss;
    int inputs[TIDE_ROW_INPUTS]; /* as many as the loss takes */
    int constants;               /* -1: none */
    float temperature;           /* logits are divided by it; 0: 1 */
};

/* (N, C), table (V, C), targets (N) i32, -1: none -> the loss (1) f32. The tensor after the loss holds the
 * log-probabilities (N) f32 of the targets, 0 where there is none. Rows without a target cost nothing. */
int tide_op_head(struct tide_graph *graph, int x, int table, int targets, const struct tide_head *how);

/* (N, 3C), the KV cache: keys and values (S, W, C), states with S slots of W places; slots and positions (N)
 * i32 -> (N, C). A row's key and value are stored at its position in its slot; the row attends to that
 * position and those before it. A row with slot -1 is skipped. Rows of one slot are consecutive, in order of
 * position. */
int tide_op_cached(struct tide_graph *graph, int qkv, int keys, int values, int slots, int positions,
                   int64_t heads);

/* ---- nets over boards: rows are cells, (B cells, C), f32 unless stated otherwise */

/* 3x3, zeros beyond the edges of a board. x (N, I): the cells of boards of `columns` by `rows`, board after
 * board, line by line; weight (9 I, O): row (ky * 3 + kx) * I + i; bias (O), -1: none -> (N, O) in the
 * compute type. */
int tide_op_conv(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows);

/* The same for each channel alone: (N, C), weight (9, C), bias (C) or -1 -> (N, C) in x's type. */
int tide_op_depthwise(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows);

int tide_op_relu(struct tide_graph *graph, int x);

/* relu(x + added); added -1: relu(x). In a program that does not train, the last node applies it as it
 * writes, if that node makes x and its operator can (tide_op.ends). Tensor x then holds the result. */
int tide_op_relu_sum(struct tide_graph *graph, int x, int added);

int tide_op_tanh(struct tide_graph *graph, int x);

/* (B cells, C) -> (B, C): the mean over the cells of each board. */
int tide_op_pool(struct tide_graph *graph, int x, int64_t cells);

/* (B cells, C), gate (B, C): each board times the sigmoid of its gate. */
int tide_op_gate(struct tide_graph *graph, int x, int gate);

/* A norm over the columns of a batch. All tensors are (C). mean and variance are the running statistics,
 * which are measured (graph.h). */
struct tide_batchnorm {
    int weight, bias, mean, variance;
    float epsilon;
};

/* (N, C) -> (N, C) with the statistics of the batch; updates the running ones. */
int tide_op_batchnorm(struct tide_graph *graph, int x, const struct tide_batchnorm *norm);

/* Folds the norm after a product, with its running statistics, into the product's weight (K, O) -> weight (K,
 * O); the tensor after it is the bias (O). Forward only. by_points: gives the points of a 3x3 convolution's
 * weight instead (winograd.h). */
int tide_op_fold(struct tide_graph *graph, int weight, const struct tide_batchnorm *norm, bool by_points);

/* A convolution with the points of a weight, f32, with a bias. Forward only. */
int tide_op_winograd(struct tide_graph *graph, int x, int weight, int bias, int64_t columns, int64_t rows);

/* A convolution with the following norm folded in; uses points where that is faster. Forward only. */
int tide_op_conv_folded(struct tide_graph *graph, int x, int weight, const struct tide_batchnorm *norm,
                        int64_t columns, int64_t rows);

/* Losses, means over B times a weight: the cross-entropy of logits (B, M) with probabilities (B, M) f32 as
 * targets, and the squared error of x (B, ...). */
int tide_op_soft(struct tide_graph *graph, int logits, int targets, float weight);
int tide_op_squared(struct tide_graph *graph, int x, int targets, float weight);

#endif
