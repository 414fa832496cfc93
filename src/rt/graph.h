/*
 * graph.h - computations over the same parameters, recorded once with shapes and without data.
 *
 * tide_graph_new -> tide_graph_program() for each program -> its nodes, in the order in which they run ->
 * tide_graph_free. Model code makes parameters and inputs here and everything else with the functions of
 * op.h, which append a node and return its output. Nothing is computed and no tensor has memory yet:
 * schedule.h decides the order, layout.h the offsets, and machine.h runs programs.
 *
 * A program is a range of nodes with one purpose: to train, evaluate, score, generate. Programs share
 * parameters by name, and inputs and states if they use the same tensor. Another program overwrites what a
 * program computed, except parameters, inputs and, among programs that use states, the states.
 *
 * Parameters, inputs and states get their offset in a section of the arena when they are made. Plans,
 * machines and checkpoints all read the table of sections here.
 *
 * A block is a range of nodes that may be recomputed instead of kept. The forward pass may drop what is made
 * between tide_graph_block() and tide_graph_block_end(), unless later nodes use it.
 *
 * The first error stays: after it every call returns -1 and does nothing. So model code reads like arithmetic
 * and checks tide_graph_failed() once, at the end.
 */
#ifndef TIDE_GRAPH_H
#define TIDE_GRAPH_H

#include "base/err.h"
#include "base/map.h"
#include "rt/dtype.h"
#include "rt/optimizer.h"

#include <stdbool.h>

enum {
    TIDE_RANK = 4,
    TIDE_OPERANDS = 8,
    TIDE_OUTPUTS = 3,
    TIDE_NUMBERS = 4,
    TIDE_PROGRAMS = 8,
    TIDE_TENSOR_NAME = 64
};

/* Parts of an arena, in their order in it. */
enum tide_section {
    TIDE_FROZEN,    /* parameters that do not train */
    TIDE_TRAINED,   /* those that do */
    TIDE_OPTIMIZER, /* its state */
    TIDE_GRADIENTS, /* of trained parameters, where they are kept */
    TIDE_INPUTS,
    TIDE_PASSES, /* what programs compute, one at a time; the states, if any, come first */
    TIDE_SECTIONS
};

enum tide_tensor_role {
    TIDE_ACTIVATION,
    TIDE_PARAMETER, /* learned, now or before */
    TIDE_INPUT,     /* filled by the caller before a program runs */
    TIDE_STATE,     /* kept between runs of the programs that use states: a KV cache, folded weights */
    TIDE_STREAMED,  /* learned before, stored elsewhere: loaded when a program reads it (machine.h) */
    TIDE_BORROWED,  /* learned before, by another model in this process: the caller fills it; not saved */
};

struct tide_tensor {
    char name[TIDE_TENSOR_NAME];
    enum tide_tensor_role role;
    enum tide_dtype dtype;
    int rank;
    int64_t dims[TIDE_RANK];
    size_t bytes;
    size_t offset;                            /* in its section, if it lasts (tide_tensor_lasts) */
    size_t gradient, state[TIDE_STATE_PARTS]; /* offsets in their sections, if it trains */
    int block;                                /* -1: none */
    int producer;                             /* node; -1: none */
    bool decays;                              /* a parameter subject to weight decay */
    bool frozen;                              /* a parameter that does not train */
    bool measured; /* a frozen parameter that an operator updates while it learns */
    bool result;   /* the caller reads it after the program has run */
    bool has_loss; /* in the program that trains */
};

struct tide_op;
struct tide_row_loss;

struct tide_node {
    const struct tide_op *op;
    int in[TIDE_OPERANDS], in_count;
    int out[TIDE_OUTPUTS], out_count;
    int block;
    int64_t numbers[TIDE_NUMBERS]; /* the operator's own: heads, rows ... */
    float real;                    /* likewise: epsilon, scale */
    int added; /* index in in[] of a tensor to add before the result is written; 0: none */
    bool relu; /* ReLU is applied after that */
    const struct tide_row_loss *loss;
};

struct tide_program {
    const char *name;
    int first, end; /* nodes */
    int block_count;
    bool trains;
    int lengths;  /* an input: the rows of each of its sequences; -1: all rows are used */
    int64_t rows; /* with lengths: the most that they may add up to */
};

struct tide_graph {
    struct tide_tensor *tensors;
    int tensor_count;
    struct tide_node *nodes;
    int node_count;
    size_t tensor_capacity, node_capacity;
    struct tide_program programs[TIDE_PROGRAMS];
    int program_count, open_block;
    struct tide_map names;          /* of parameters */
    size_t bytes[TIDE_SECTIONS];    /* of what lasts between runs; in TIDE_PASSES, the states */
    size_t state[TIDE_STATE_PARTS]; /* bytes of each part of the optimizer state; in TIDE_OPTIMIZER the parts
                                       follow each other, each for all parameters together */
    int64_t parameters, trained;    /* numbers in parameters, without measured ones; in those that train */
    enum tide_dtype compute;        /* of products and what lies between them */
    /* For parameters made from now on. */
    const struct tide_optimizer *optimizer;
    enum tide_dtype stored; /* of matrices; vectors are f32 */
    bool freezes;           /* they do not train */
    bool streams;           /* they do not train and are streamed: no program that trains may read them */
    bool borrows;           /* they do not train and belong to another model */
    const char *prefix;     /* of parameters' names in files; NULL: none */
    /* Other tensors that files of such a model may contain: names, or endings that begin with '.'; ends with
     * NULL. NULL: there are none. */
    const char *const *beside;
    bool failed;
    struct tide_err err;
};

/* Parameters are stored in f32 and train with AdamW unless the caller sets other values. Caller frees with
 * tide_graph_free. NULL: out of memory. */
struct tide_graph *tide_graph_new(enum tide_dtype compute);
void tide_graph_free(struct tide_graph *graph);

/* Nodes appended from now on belong to a new program, whose number is returned; -1 after an error. At most
 * one program of a graph trains. name: a literal. */
int tide_graph_program(struct tide_graph *graph, const char *name, bool trains);

/* Adds a program with the nodes of another one, forward only. */
int tide_graph_forward_of(struct tide_graph *graph, const char *name, int program);

/* The current program reads consecutive sequences of different lengths. `lengths`, an i32 input, holds the
 * rows of each. Of its inputs and activations that have `rows` rows, a run uses only as many rows as the
 * lengths add up to; the rest cost nothing. A device may compute a few more rows if that is convenient, so
 * inputs must hold valid values there. */
void tide_graph_lengths(struct tide_graph *graph, int lengths, int64_t rows);

/* True if a tensor of a program with lengths has that many rows. */
bool tide_graph_has_rows(const struct tide_graph *graph, int program, int tensor);

/* Returns the program that trains; -1: none does. */
int tide_graph_training(const struct tide_graph *graph);

/* Makes a tensor of that shape; -1 after an error. */
int tide_graph_tensor(struct tide_graph *graph, const char *name, enum tide_tensor_role role,
                      enum tide_dtype dtype, int rank, const int64_t *dims);

/* Makes the next output of an operator's node, which is not in the graph yet. -1 after an error. */
int tide_graph_output(struct tide_graph *graph, struct tide_node *node, const char *name,
                      enum tide_dtype dtype, int rank, const int64_t *dims);

/* Returns the parameter of that name and makes it if it does not exist. Another shape is an error. */
int tide_graph_parameter(struct tide_graph *graph, const char *name, bool decays, int rank,
                         const int64_t *dims);

/* The same for `count` numbers that are measured, not learned: the optimizer leaves them alone, an operator
 * updates them (op.h), and they are saved with the model. */
int tide_graph_measured(struct tide_graph *graph, const char *name, int64_t count);

/* Fills in the parts of a trained parameter's optimizer state and returns how many there are; and returns
 * where in its section one of them is. */
int tide_graph_parts(const struct tide_graph *graph, const struct tide_tensor *tensor,
                     struct tide_state_part ret_parts[TIDE_STATE_PARTS]);
size_t tide_graph_state(const struct tide_graph *graph, const struct tide_tensor *tensor, int part);

/* Marks a tensor that the caller reads after its program has run. Losses need no mark. Returns the tensor. */
int tide_graph_result(struct tide_graph *graph, int tensor);

/* Appends a node with in[] and in_count set; its operator makes the outputs. Returns the first output. */
int tide_graph_append(struct tide_graph *graph, const struct tide_node *node);

void tide_graph_block(struct tide_graph *graph);
void tide_graph_block_end(struct tide_graph *graph);

/* Records the first failure and returns -1. */
int tide_graph_fail(struct tide_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns 0, or -1 with the first error. */
int tide_graph_failed(const struct tide_graph *graph, struct tide_err *err);

/* True if a tensor keeps its memory in a section between runs. tide_tensor_section() says in which. */
static inline bool tide_tensor_lasts(const struct tide_tensor *tensor)
{
    return tensor->role != TIDE_ACTIVATION && tensor->role != TIDE_STREAMED;
}

static inline enum tide_section tide_tensor_section(const struct tide_tensor *tensor)
{
    return tensor->role == TIDE_INPUT   ? TIDE_INPUTS
           : tensor->role == TIDE_STATE ? TIDE_PASSES
           : tensor->frozen             ? TIDE_FROZEN
                                        : TIDE_TRAINED;
}

/* A gradient has the type and the size of its parameter. */
static inline bool tide_tensor_trains(const struct tide_tensor *tensor)
{
    return tensor->role == TIDE_PARAMETER && !tensor->frozen;
}

/* The numbers in a tensor. Rows: the product of all dimensions but the last. */
int64_t tide_tensor_count(const struct tide_tensor *tensor);
int64_t tide_tensor_rows(const struct tide_tensor *tensor);
int64_t tide_tensor_columns(const struct tide_tensor *tensor);

#endif
