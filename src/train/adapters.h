/*
 * adapters.h - which adapters a model has, from the command line and from PEFT's adapter_config.json.
 *
 * The only kind is LoRA: scale * x A^T B^T is added to a frozen linear layer, with A (rank, in), B (out,
 * rank) and scale = alpha / rank. The tensors are saved with PEFT's names and shapes
 * (adapter_model.safetensors), so that `peft` opens what is saved here and the other way round.
 */
#ifndef TIDE_ADAPTERS_H
#define TIDE_ADAPTERS_H

#include "base/err.h"
#include "train/gpt.h"

#include <stdio.h>

/* "lora:RANK" or "lora:RANK:ALPHA" (alpha defaults to the rank), on every linear layer. */
int tide_adapters_parse(const char *text, struct tide_gpt_config *config, struct tide_err *err);

/* Rank and scale of PEFT's adapter_config.json. ret_base: the adapted model as the file names it; "": it does
 * not. Refuses files that would compute something else than this runtime does. */
int tide_adapters_read(const char *path, struct tide_gpt_config *config, char *ret_base, size_t size,
                       struct tide_err *err);

/* Sets the layers that have adapters, by the tensors of adapter_model.safetensors: target_modules may be a
 * list of names, of ends of names or of paths, or an expression. Of `config`, the model's blocks count. */
int tide_adapters_find(const char *path, struct tide_gpt_config *config, struct tide_err *err);

void tide_adapters_write(const struct tide_gpt_config *config, const char *base, FILE *out);

#endif
