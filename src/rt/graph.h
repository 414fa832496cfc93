/*
 * graph.h - a computation, recorded once with shapes and without data.
 *
 * tide_graph_new -> tensors and nodes in the order in which they run -> tide_graph_free. Model code makes
 * parameters and inputs here and everything else with the functions of op.h, which append a node and return
 * its output. Nothing is computed and no tensor's memory exists: schedule.h says in what order things run,
 * layout.h where they lie, machine.h runs them.
 *
 * A block is a stretch of nodes that may be computed again instead of kept: between tide_graph_block() and
 * tide_graph_block_end() everything but what later nodes use may be dropped after the forward pass.
 *
 * The first error stays: after it every call returns -1 and does nothing, so that model code reads like
 * arithmetic and looks once, at the end, at tide_graph_failed().
 */
#ifndef TIDE_GRAPH_H
#define TIDE_GRAPH_H

#include "base/arena.h"
#include "base/err.h"
#include "rt/dtype.h"

#include <stdbool.h>

enum { TIDE_RANK = 4, TIDE_OPERANDS = 6, TIDE_OUTPUTS = 3, TIDE_NUMBERS = 4, TIDE_TENSOR_NAME = 64 };

enum tide_tensor_role {
    TIDE_ACTIVATION,
    TIDE_PARAMETER, /* learned */
    TIDE_INPUT,     /* filled by the caller before each pass */
    TIDE_STATE,     /* kept from pass to pass: a cache of keys and values */
};

struct tide_tensor {
    char name[TIDE_TENSOR_NAME];
    enum tide_tensor_role role;
    enum tide_dtype dtype;
    int rank;
    int64_t dims[TIDE_RANK];
    size_t bytes;
    int block;    /* -1: none */
    int producer; /* node; -1: none */
    bool decays;  /* a parameter subject to weight decay */
};

struct tide_op;

struct tide_node {
    const struct tide_op *op;
    int in[TIDE_OPERANDS], in_count;
    int out[TIDE_OUTPUTS], out_count;
    int block;
    int64_t numbers[TIDE_NUMBERS]; /* the operator's own: heads, rows ... */
    float real;                    /* likewise: epsilon, scale */
};

struct tide_graph {
    struct tide_tensor *tensors;
    int tensor_count, tensor_capacity;
    struct tide_node *nodes;
    int node_count, node_capacity;
    int block_count, open_block;
    int64_t parameters;      /* how many numbers are learned */
    enum tide_dtype compute; /* of products and what lies between them */
    bool failed;
    struct tide_err err;
};

/* Caller frees with tide_graph_free. NULL: no memory. */
struct tide_graph *tide_graph_new(enum tide_dtype compute);
void tide_graph_free(struct tide_graph *graph);

/* A tensor of that shape; -1 after an error. */
int tide_graph_tensor(struct tide_graph *graph, const char *name, enum tide_tensor_role role,
                      enum tide_dtype dtype, int rank, const int64_t *dims);
int tide_graph_parameter(struct tide_graph *graph, const char *name, bool decays, int rank,
                         const int64_t *dims);

/* Appends a node whose inputs are there (in[] filled, in_count set) and lets its operator make the outputs.
 * Returns the first output. */
int tide_graph_append(struct tide_graph *graph, const struct tide_node *node);

void tide_graph_block(struct tide_graph *graph);
void tide_graph_block_end(struct tide_graph *graph);

/* Records the first failure and returns -1. */
int tide_graph_fail(struct tide_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0, or -1 with the first error. */
int tide_graph_failed(const struct tide_graph *graph, struct tide_err *err);

/* Numbers in a tensor; rows: all dimensions but the last. */
int64_t tide_tensor_count(const struct tide_tensor *tensor);
int64_t tide_tensor_rows(const struct tide_tensor *tensor);
int64_t tide_tensor_columns(const struct tide_tensor *tensor);

#endif
