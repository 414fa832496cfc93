/*
 * graph.h - computations over the same parameters, recorded once with shapes and without data.
 *
 * tide_graph_new -> tide_graph_program() for each program -> its nodes, in the order in which they run ->
 * tide_graph_free. Model code makes parameters and inputs here and everything else with the functions of
 * op.h, which append a node and return its output. Nothing is computed and no tensor's memory exists:
 * schedule.h says in what order things run, layout.h where they lie, machine.h runs them.
 *
 * A program is a stretch of nodes with one purpose: to train, evaluate, score, generate. Programs share
 * parameters, by name, and inputs and states where they use the same tensor. What a program computes is gone
 * when another runs, but for parameters, inputs and, among programs that use states, the states.
 *
 * Parameters, inputs and states have a place in a section of the arena from the moment they are made: the
 * table of sections here is the one that plans, machines and checkpoints read.
 *
 * A block is a stretch of nodes that may be recomputed instead of kept: between tide_graph_block() and
 * tide_graph_block_end() everything but what later nodes use may be dropped after the forward pass.
 *
 * The first error stays: after it every call returns -1 and does nothing, so that model code reads like
 * arithmetic and looks once, at the end, at tide_graph_failed().
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
    TIDE_PASSES, /* what programs compute, which share it; where states are, they come first */
    TIDE_SECTIONS
};

enum tide_tensor_role {
    TIDE_ACTIVATION,
    TIDE_PARAMETER, /* learned, now or before */
    TIDE_INPUT,     /* filled by the caller before a program runs */
    TIDE_STATE,     /* kept from run to run of the programs that use states: a KV cache, folded weights */
    TIDE_STREAMED,  /* learned before and kept elsewhere: a program that reads it asks for it (machine.h) */
    TIDE_BORROWED,  /* learned before, of another model that is here, too: filled by the caller, not saved */
};

struct tide_tensor {
    char name[TIDE_TENSOR_NAME];
    enum tide_tensor_role role;
    enum tide_dtype dtype;
    int rank;
    int64_t dims[TIDE_RANK];
    size_t bytes;
    size_t offset;                            /* in its section; where it lasts */
    size_t gradient, state[TIDE_STATE_PARTS]; /* of a parameter that trains: in their sections */
    int block;                                /* -1: none */
    int producer;                             /* node; -1: none */
    bool decays;                              /* a parameter subject to weight decay */
    bool frozen;                              /* a parameter that does not train */
    bool measured;                            /* likewise; an operator keeps it up to date while it learns */
    bool result;                              /* the caller reads it after the program ran */
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
    int added;                     /* of in[]: what is added to the result before it is written; 0: nothing */
    bool relu;                     /* ReLU is taken of it then */
    const struct tide_row_loss *loss;
};

struct tide_program {
    const char *name;
    int first, end; /* nodes */
    int block_count;
    bool trains;
    int lengths;  /* an input: rows of each of its sequences; -1: all rows are there */
    int64_t rows; /* with lengths: the most that they add up to */
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
    size_t bytes[TIDE_SECTIONS];    /* of what is there from run to run: in TIDE_PASSES, states */
    size_t state[TIDE_STATE_PARTS]; /* of TIDE_OPTIMIZER: bytes of each part of the state, which lies there
                                       for all parameters together, one part after another */
    int64_t parameters, trained;    /* how many numbers there are in parameters, those that are measured
                                       aside, and in those that train */
    enum tide_dtype compute;        /* of products and what lies between them */
    /* Of parameters made from now on. */
    const struct tide_optimizer *optimizer;
    enum tide_dtype stored; /* of matrices; vectors are f32 */
    bool freezes;           /* they do not train */
    bool streams;           /* likewise, and are streamed: no program that trains may read them */
    bool borrows;           /* likewise, and are another model's */
    const char *prefix;     /* of parameters' names in files; NULL: none */
    /* Other tensors that files of such a model may have: names or, from a '.' on, ends of names; then NULL.
     * NULL: there are none. */
    const char *const *beside;
    bool failed;
    struct tide_err err;
};

/* Parameters are stored in f32 and train with AdamW, until the caller says otherwise. Caller frees with
 * tide_graph_free. NULL: no memory. */
struct tide_graph *tide_graph_new(enum tide_dtype compute);
void tide_graph_free(struct tide_graph *graph);

/* Nodes appended from now on are those of a new program, whose number is returned; -1 after an error. One
 * program of a graph may train. name: a literal. */
int tide_graph_program(struct tide_graph *graph, const char *name, bool trains);

/* A program with the nodes of another, forward only. */
int tide_graph_forward_of(struct tide_graph *graph, const char *name, int program);

/* The program at hand reads sequences of different length, one after another: `lengths`, an input of i32,
 * says how many rows each has. Of tensors of `rows` rows that are inputs of this program, or that it
 * computes, so many rows are there in a run as the lengths add up to, and others cost nothing. A device may
 * compute some more, for its own convenience: inputs hold something harmless there. */
void tide_graph_lengths(struct tide_graph *graph, int lengths, int64_t rows);

/* Whether a tensor has those rows in a program with lengths. */
bool tide_graph_has_rows(const struct tide_graph *graph, int program, int tensor);

/* The program that trains; -1: none does. */
int tide_graph_training(const struct tide_graph *graph);

/* A tensor of that shape; -1 after an error. */
int tide_graph_tensor(struct tide_graph *graph, const char *name, enum tide_tensor_role role,
                      enum tide_dtype dtype, int rank, const int64_t *dims);

/* What an operator computes: the next output of its node, which is not in the graph yet. -1 after an error.
 */
int tide_graph_output(struct tide_graph *graph, struct tide_node *node, const char *name,
                      enum tide_dtype dtype, int rank, const int64_t *dims);

/* The parameter of that name, made where there is none yet. One of another shape is an error. */
int tide_graph_parameter(struct tide_graph *graph, const char *name, bool decays, int rank,
                         const int64_t *dims);

/* Likewise (count) numbers that are measured, not learned: the optimizer leaves them alone, an operator
 * changes them (op.h), and they are saved with the model. */
int tide_graph_measured(struct tide_graph *graph, const char *name, int64_t count);

/* The caller will read it when its program has run. Losses are read always. Returns the tensor. */
int tide_graph_result(struct tide_graph *graph, int tensor);

/* Appends a node whose inputs are there (in[] filled, in_count set) and lets its operator make the outputs.
 * Returns the first output. */
int tide_graph_append(struct tide_graph *graph, const struct tide_node *node);

void tide_graph_block(struct tide_graph *graph);
void tide_graph_block_end(struct tide_graph *graph);

/* Records the first failure and returns -1. */
int tide_graph_fail(struct tide_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0, or -1 with the first error. */
int tide_graph_failed(const struct tide_graph *graph, struct tide_err *err);

/* Whether a tensor has memory in a section from run to run, and in which. */
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

/* Its gradient is of its own type, and of as many bytes. */
static inline bool tide_tensor_trains(const struct tide_tensor *tensor)
{
    return tensor->role == TIDE_PARAMETER && !tensor->frozen;
}

/* Numbers in a tensor; rows: all dimensions but the last. */
int64_t tide_tensor_count(const struct tide_tensor *tensor);
int64_t tide_tensor_rows(const struct tide_tensor *tensor);
int64_t tide_tensor_columns(const struct tide_tensor *tensor);

#endif
