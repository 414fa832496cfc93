/*
 * checkpoint.h - a run on disk: DIR/step-NNNNNNNN/{config.json, model.safetensors, optimizer.safetensors,
 * vocabulary.json, state.json}.
 *
 * A checkpoint is written into a directory of another name and renamed when it is whole and on the disk, so
 * that a kill at any moment leaves either the old ones or also the new one. state.json names step, seed and
 * sizes, and is read first. The last `keep` are kept. Weights have Hugging Face's names with the prefix
 * "transformer." and load in `transformers`; files from there load here (with or without the prefix, F32, F16
 * or BF16, mask buffers skipped).
 */
#ifndef TIDE_CHECKPOINT_H
#define TIDE_CHECKPOINT_H

#include "rt/machine.h"
#include "train/data.h"
#include "train/gpt.h"

struct tide_checkpoint_state {
    int64_t step; /* steps done */
    uint64_t seed;
    int64_t batch, sequence, accumulate;
};

/* Writes weights, moments and state; removes all but the newest `keep`. Disk full: -1, what was there stays.
 */
int tide_checkpoint_save(const char *dir, int keep, const struct tide_graph *graph,
                         struct tide_machine *machine, const struct tide_gpt_config *config,
                         const struct tide_data *data, const struct tide_checkpoint_state *state,
                         struct tide_err *err);

/* The newest whole one in dir, as a path. 0: found; 1: none; -1. */
int tide_checkpoint_find(const char *dir, char *ret_path, size_t size, struct tide_err *err);

int tide_checkpoint_config(const char *path, struct tide_gpt_config *ret_config,
                           struct tide_checkpoint_state *ret_state, struct tide_err *err);

/* Into a machine of the same model. optimizer: false for weights alone. A file that does not match the model
 * is refused, by the name of the first tensor that does not, before anything is overwritten. */
int tide_checkpoint_load(const char *path, const struct tide_graph *graph, struct tide_machine *machine,
                         bool optimizer, struct tide_err *err);

#endif
