/*
 * config.h - the model's configuration: a preset or a Hugging Face config.json.
 */
#ifndef TIDE_CONFIG_H
#define TIDE_CONFIG_H

#include "base/err.h"
#include "train/gpt.h"

#include <stdio.h>

/* The model_type in config.json of a net for board games. */
#define TIDE_BOARDNET_TYPE "tidemark-boardnet"

/* "tiny", "small", "medium", "large", "gpt2". The data set the vocabulary, except for gpt2. -1: no such
 * preset, with the nearest name as a hint. */
int tide_config_preset(const char *name, struct tide_gpt_config *ret_config, struct tide_err *err);

/* Reads a config.json in GPT-2's terms: n_embd, n_head, n_layer, n_inner, n_positions or n_ctx, vocab_size,
 * layer_norm_epsilon, activation_function, bos_token_id, eos_token_id, pad_token_id. Missing fields get
 * GPT-2's defaults. Fields that contradict each other, are absurd, or ask for what this runtime cannot do,
 * are refused with a sentence. */
int tide_config_read(const char *path, struct tide_gpt_config *ret_config, struct tide_err *err);

/* Writes the same terms, so that `transformers` loads what was trained here. */
void tide_config_write(const struct tide_gpt_config *config, FILE *out);

/* 0, or -1 with a sentence. */
int tide_config_check(const struct tide_gpt_config *config, struct tide_err *err);

#endif
