/*
 * gpt.h - GPT-2 as a graph: pre-norm blocks, learned positions, tied head.
 */
#ifndef TIDE_GPT_H
#define TIDE_GPT_H

#include "rt/machine.h"
#include "train/policy.h"

/* The linear layers of a block, which may have adapters. */
enum { TIDE_GPT_LAYERS = 4, TIDE_ADAPT_ALL = 15 };
extern const char *const tide_gpt_layers[TIDE_GPT_LAYERS];

/* Tokens that mean something to programs that generate text. count 0: nothing is said; -1: there are none. */
enum { TIDE_GPT_SPECIAL = 8 };
struct tide_gpt_special {
    int count;
    int64_t ids[TIDE_GPT_SPECIAL];
};

struct tide_gpt_config {
    int64_t vocabulary, positions, channels, heads, blocks, hidden;
    float epsilon;
    /* Adapters (LoRA): the model is frozen, and scale * x A^T B^T is added to linear layers. */
    int64_t adapter_rank; /* 0: none */
    float adapter_scale;
    unsigned adapters;                       /* bit i: tide_gpt_layers[i] has adapters, in every block */
    struct tide_gpt_special begin, end, pad; /* not used here, but saved again */
};

/* The model for training: programs, tensors that the caller fills, and results. */
struct tide_gpt {
    int train, evaluate; /* programs */
    int tokens, targets; /* (B T) i32 */
    int token_table, position_table;
    int loss;
};

/* Appends the whole model with its loss; names are those of the published GPT-2 files. */
int tide_gpt_build(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t batch,
                   int64_t sequence, struct tide_gpt *ret_gpt, struct tide_err *err);

/* The model as a policy that learns from rewards (policy.h): a micro-batch has `sequences` sequences of at
 * most `rows` rows each; only rows that are used cost time. */
struct tide_gpt_policy {
    int64_t sequences, rows;
    struct tide_gpt gpt;    /* evaluate is named `score`: the same forward pass */
    int lengths, positions; /* (sequences), (sequences rows) i32 */
    int inputs[TIDE_POLICY_INPUTS], constants;
    int log_probabilities; /* a result of both programs: (sequences rows) f32 */
    int reference;         /* a program that does the same with the reference; -1: beta is 0 */
    int reference_log;     /* its result */
};

/* Prefix of parameter names of a reference that is a separate model. */
#define TIDE_GPT_REFERENCE "reference."

/* Uses the rule's temperature and beta. The reference is the model without its adapters. If there are none,
 * it is another model of the same shape with streamed parameters: set their source with
 * tide_machine_source(), for instance the file that the policy started from (streamed.h). */
int tide_gpt_build_policy(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t sequences,
                          int64_t rows, const struct tide_policy_rule *rule,
                          struct tide_gpt_policy *ret_policy, struct tide_err *err);

/* Where a micro-batch goes. Borrowed from the machine. */
struct tide_policy_batch tide_gpt_policy_batch(const struct tide_gpt_policy *policy,
                                               struct tide_machine *machine);

/* The same model over a KV cache: a program that reads prompts, `rows` rows at a time, and fills the cache;
 * and one that reads a row for each slot and gives their logits. */
struct tide_gpt_decoder {
    int64_t slots, window, rows;
    struct tide_gpt_reading {
        int program, tokens, slots, positions; /* (rows) i32 each; a row with slot -1 is skipped */
    } prompt, next;                            /* next: one row per slot */
    int logits;                                /* of next: (slots, vocabulary) f32 */
    int caches, cache_count; /* the first of the consecutive states: (slots, window, C) each */
};

/* Each slot has `window` positions: at most the model's. */
int tide_gpt_build_decoder(struct tide_graph *graph, const struct tide_gpt_config *config, int64_t slots,
                           int64_t window, struct tide_gpt_decoder *ret_decoder, struct tide_err *err);

#endif
