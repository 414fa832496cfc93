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

/* The same model over a cache of `window` places, for `rows` rows at a time, with parameters of the same
 * names. Its states come first, so that decoders of one window share them (machine.h). With logits its output
 * are those of the rows, else it ends with the cache filled: for reading a prompt. ret_tokens: (rows) i32. */
int tide_gpt_build_decoder(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t rows,
                           int64_t window, bool logits, int *ret_tokens, struct tide_err *err);

#endif
