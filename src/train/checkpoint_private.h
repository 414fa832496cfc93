/*
 * checkpoint_private.h - what writing and reading a checkpoint share: its names.
 */
#ifndef TIDE_CHECKPOINT_PRIVATE_H
#define TIDE_CHECKPOINT_PRIVATE_H

#include "train/checkpoint.h"
#include "train/safetensors.h"
#include "train/tokenizer.h"

enum tide_checkpoint_file {
    TIDE_CHECKPOINT_CONFIG,
    TIDE_CHECKPOINT_VOCABULARY,
    TIDE_CHECKPOINT_TOKENIZER, /* the first of those that exist, as in tide_tokenizer_names */
    TIDE_CHECKPOINT_MODEL = TIDE_CHECKPOINT_TOKENIZER + TIDE_TOKENIZER_FILES, /* or adapters: */
    TIDE_CHECKPOINT_ADAPTER_CONFIG,
    TIDE_CHECKPOINT_ADAPTERS,
    TIDE_CHECKPOINT_REPLAY, /* of self-play: what else the next games and steps need */
    TIDE_CHECKPOINT_OPTIMIZER,
    TIDE_CHECKPOINT_PARTS, /* the number of files whose length and checksum are in state.json */
    TIDE_CHECKPOINT_STATE = TIDE_CHECKPOINT_PARTS,
    TIDE_CHECKPOINT_FILES,
};

/* In the order in which they are written. */
static const char *const tide_checkpoint_names[TIDE_CHECKPOINT_FILES] = {"config.json",
                                                                         "vocabulary.json",
                                                                         "tokenizer.json",
                                                                         "vocab.json",
                                                                         "merges.txt",
                                                                         "added_tokens.json",
                                                                         "tokenizer_config.json",
                                                                         "special_tokens_map.json",
                                                                         "model.safetensors",
                                                                         "adapter_config.json",
                                                                         "adapter_model.safetensors",
                                                                         "replay.bin",
                                                                         "optimizer.safetensors",
                                                                         "state.json"};

/* True if a checkpoint may lack this file. */
static inline bool tide_checkpoint_is_optional(int file)
{
    return file >= TIDE_CHECKPOINT_VOCABULARY && file < TIDE_CHECKPOINT_OPTIMIZER;
}

/* What state.json says of another file. */
struct tide_checkpoint_part {
    int64_t bytes; /* -1: there is none */
    uint32_t checksum;
};

/* Parses any bytes; -1 with a sentence if they are not a state. state NULL: only checks. */
int tide_checkpoint_parse(const char *text, size_t len, struct tide_checkpoint_state *state,
                          struct tide_checkpoint_part *ret_parts, struct tide_err *err);

#define TIDE_CHECKPOINT_FORMAT   "tidemark-checkpoint-1"
#define TIDE_CHECKPOINT_ADAPTING "base_model.model."

/* Describes tensor number `index` of a file (the model, its adapters, the optimizer state), as it is in the
 * file and in the machine; false: there is none. Numbers are below tide_checkpoint_tensors(). */
int tide_checkpoint_tensors(const struct tide_graph *graph);
bool tide_checkpoint_tensor(const struct tide_graph *graph, struct tide_machine *machine,
                            enum tide_checkpoint_file file, int index,
                            struct tide_safetensor_source *ret_source);

/* Finds the tensor of a file that a model wants, with or without its prefix. Borrowed. -1 with a sentence:
 * there is none of that name and shape, or its type cannot be converted. */
int tide_checkpoint_pick(const struct tide_graph *graph, const struct tide_safetensors *file,
                         const struct tide_safetensor_source *wanted,
                         const struct tide_safetensor **ret_found, struct tide_err *err);

enum { TIDE_CHECKPOINT_NAME = 48 };

/* "step-NNNNNNNN", or hidden ".step-NNNNNNNN.partial". */
void tide_checkpoint_name(int64_t step, bool hidden, char ret_name[static TIDE_CHECKPOINT_NAME]);

/* Calls visit() with every name in an open directory but "." and "..", until it returns false. Allocates
 * nothing: opendir() would touch more pages than all the rest of saving. Returns 0, or -1 with errno. */
int tide_checkpoint_visit(int folder, bool (*visit)(void *context, const char *name), void *context);

/* Returns the newest or the oldest step in [first, last] of the checkpoints in an open directory; -1: none.
 * ret_count: how many there are; may be NULL. */
int64_t tide_checkpoint_among(int folder, int64_t first, int64_t last, bool oldest, bool hidden,
                              int *ret_count);

#endif
