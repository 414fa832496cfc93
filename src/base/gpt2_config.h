/*
 * gpt2_config.h - GPT-2's config.json, with Hugging Face's names: n_embd, n_head, n_layer, n_inner,
 * n_positions or n_ctx, vocab_size, and so on. `train` and `plan` decide which of these models they support.
 */
#ifndef TIDE_GPT2_CONFIG_H
#define TIDE_GPT2_CONFIG_H

#include "base/json_read.h"

enum { TIDE_CONFIG_MOST = 1 << 20 }; /* most bytes of the file */
#define TIDE_CONFIG_WHAT "the model's configuration"

struct tide_gpt2_config {
    int64_t vocabulary, positions, channels, heads, blocks, hidden;
    double epsilon, embed_dropout, residual_dropout, attention_dropout;
    bool tied;              /* the head shares the embedding's weights */
    const char *activation; /* borrowed from the document */
};

/* Missing fields get GPT-2's defaults. -1 if a field has the wrong type or two contradict each other. Sizes
 * may be absurd; the caller checks them. */
int tide_gpt2_config_take(const json_t *root, struct tide_gpt2_config *ret_config, struct tide_err *err);

#endif
