/*
 * kernels.h - how processors compute each operator of op.h.
 *
 * One file for each operator (cpu_NAME.c), and its row in the table of kernels.c. forward() and backward() do
 * what op.h says, with the threads of threads.h, and give the same bits for the same number of threads. They
 * use `scratch` (bytes as scratch() says, 64-byte aligned, contents arbitrary) and nothing else: no
 * allocation, no state.
 */
#ifndef TIDE_KERNELS_H
#define TIDE_KERNELS_H

#include "rt/cpu/matmul.h"
#include "rt/op.h"

struct tide_cpu_kernels {
    const struct tide_op *op;
    /* May be NULL: none. */
    size_t (*scratch)(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction);
    /* Of a loss: for its backward pass, with some quarters of what can be spared, for which that part of its
     * work is done twice; scratch_bytes says what it got. NULL: nothing can. */
    size_t (*scratch_recomputing)(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                                  const struct tide_node *node, int quarters);
    void (*forward)(const struct tide_call *call);
    void (*backward)(const struct tide_call *call); /* NULL where gradients pass, or there are none */
};

/* Of an operator. Every one has some. */
const struct tide_cpu_kernels *tide_cpu_kernels(const struct tide_op *op);

/* What a node needs beside its operands, in one direction; quarters: of what a loss can spare. */
size_t tide_cpu_scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                        const struct tide_node *node, enum tide_direction direction, int quarters);

#endif
