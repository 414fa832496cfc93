/*
 * adapters.h - which adapters a model has, as people say it and as PEFT's adapter_config.json does.
 *
 * Adapters are of one kind, LoRA: to a frozen linear layer is added scale * x A^T B^T with A (rank, in) and
 * B (out, rank); scale is alpha / rank. Their tensors are saved with PEFT's names and shapes
 * (adapter_model.safetensors), so that `peft` opens what is saved here, and the other way round.
 */
#ifndef TIDE_ADAPTERS_H
#define TIDE_ADAPTERS_H

#include "base/err.h"
#include "train/gpt.h"

#include <stdio.h>

/* "lora:RANK" or "lora:RANK:ALPHA" (alpha is the rank where it is not said), on every linear layer. */
int tide_adapters_parse(const char *text, struct tide_gpt_config *config, struct tide_err *err);

/* ret_base: the model that is adapted, as the file says it; "": it does not. What would compute something
 * else than this runtime does is refused. */
int tide_adapters_read(const char *path, struct tide_gpt_config *config, char *ret_base, size_t size,
                       struct tide_err *err);

void tide_adapters_write(const struct tide_gpt_config *config, const char *base, FILE *out);

#endif
