/*
 * gpt.h - GPT-2 as a graph: pre-norm blocks, learned positions, tied head.
 */
#ifndef TIDE_GPT_H
#define TIDE_GPT_H

#include "rt/graph.h"

struct tide_gpt_config {
    int64_t words, positions, channels, heads, blocks, hidden;
    float epsilon;
};

/* Tensors that the caller fills. */
struct tide_gpt {
    int tokens, targets; /* (B T) i32 */
    int words, places;   /* tables */
};

/* Appends the whole model with its loss; names are those of the published GPT-2 files. */
int tide_gpt_build(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t batch,
                   int64_t sequence, struct tide_gpt *ret_gpt, struct tide_err *err);

#endif
