/*
 * kernels.h - how processors compute each operator of op.h.
 *
 * Each operator NAME has its kernels, tide_cpu_NAME, in cpu_NAME.c; operators of one sort share a file.
 * forward() and backward() do what op.h says, on the threads of threads.h, and give the same bits for any
 * number of threads. They use `scratch` (as many bytes as scratch() returns, 64-byte aligned, contents
 * arbitrary) and nothing else: no allocation, no state.
 */
#ifndef TIDE_KERNELS_H
#define TIDE_KERNELS_H

#include "rt/op.h"

/* What scratch is for. quarters: so many quarters of what a loss keeps for its backward pass are computed
 * twice instead of kept; the call's scratch_bytes tells the loss. */
struct tide_need {
    const struct tide_graph *graph;
    const struct tide_node *node;
    enum tide_direction direction;
    int quarters;
};

struct tide_cpu_kernels {
    size_t (*scratch)(const struct tide_need *need); /* NULL: none needed */
    void (*forward)(const struct tide_call *call);
    void (*backward)(const struct tide_call *call); /* NULL if gradients pass through, or there are none */
};

/* Returns the kernels of an operator. Every operator has some. */
const struct tide_cpu_kernels *tide_cpu_kernels(const struct tide_op *op);

size_t tide_cpu_scratch(const struct tide_need *need);

#endif
