/*
 * shards.h - the weights of a model, in one safetensors file or in several that an index names.
 *
 * model.safetensors is taken where it is there; else model.safetensors.index.json, as Hugging Face writes it:
 * {"weight_map": {"wte.weight": "model-00001-of-00002.safetensors", ...}}. The files lie beside their index.
 * Every tensor must be in the file that the index names for it, and nowhere else, and every file have those
 * alone; all of it is checked before a number is read.
 */
#ifndef TIDE_SHARDS_H
#define TIDE_SHARDS_H

#include "train/safetensors.h"

/* path: of the one file. Read and close it as any other (safetensors.h). */
int tide_shards_open(struct tide_safetensors *file, const char *path, struct tide_err *err);

#endif
