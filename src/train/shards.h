/*
 * shards.h - the weights of a model, in one safetensors file or in several that an index names.
 *
 * Takes model.safetensors if it exists; else model.safetensors.index.json, as Hugging Face writes it:
 * {"weight_map": {"wte.weight": "model-00001-of-00002.safetensors", ...}}. The files are next to their index.
 * Every tensor must be in the file that the index names for it and in no other, and no file may have others;
 * all of this is checked before a number is read.
 */
#ifndef TIDE_SHARDS_H
#define TIDE_SHARDS_H

#include "train/safetensors.h"

/* path: of the single file. Read and close the result like any other (safetensors.h). */
int tide_shards_open(struct tide_safetensors *file, const char *path, struct tide_err *err);

#endif
