/*
 * net.h - the models as programs on the tape: which operators transformers and torchvision call, in which
 * order, and when Python frees their results.
 *
 * tide_net_init takes the parameters -> tide_net_forward, any number of times -> tide_net_release. The net
 * must outlive every graph that was made with it, because a checkpointed block runs again from it.
 */
#ifndef TIDE_NET_H
#define TIDE_NET_H

#include "plan/model.h"
#include "plan/torch_op.h"

struct tide_linear {
    int weight, bias, down, up; /* leaves; down and up: a LoRA adapter, -1: none */
    int64_t in, out, rank;
    bool turned;             /* the weight is stored as (out, in) */
    enum tide_window window; /* of a convolution */
};

struct tide_norm {
    int weight, bias; /* bias -1: RMSNorm */
};

struct tide_layer {
    struct tide_norm before, after;
    struct tide_linear q, k, v, o; /* GPT-2: q is all three */
    struct tide_linear gate, up, down;
};

struct tide_stage_block { /* of a ResNet: three or two convolutions with batch norm, and a shortcut */
    struct tide_linear conv[4];
    struct tide_norm norm[4];
    int64_t stride;
};

struct tide_net_options {
    int width;       /* bytes of a weight */
    int64_t rank;    /* of LoRA adapters on every linear layer but the head; 0: none */
    bool trains;     /* the model's own weights train */
    bool eager;      /* attention operator by operator */
    bool checkpoint; /* of every block */
    bool compiled;
    bool dropout; /* training mode */
    enum tide_part owner;
};

struct tide_net_call {
    int64_t batch, rows, past; /* rows: new tokens of each sequence, or the side of an image */
    int64_t logits;            /* rows per sequence that get logits; 0: all */
    bool masked;               /* the batch has sequences of different length */
    bool caches;               /* keys and values are kept (text) */
    bool headless;             /* no logits: returns the head's input (text) */
};

struct tide_net {
    const struct tide_architecture *model;
    struct tide_net_options how;
    struct tide_layer *layers;
    struct tide_stage_block *blocks;
    int token_table, position_table, class_token;
    struct tide_linear head, patches; /* patches: also a ResNet's first convolution */
    struct tide_norm last;
    int group; /* of the first block's weights, if they are shared out (fully_shard.h); else -1 */
    struct tide_net_call call; /* the current one, or the last */
    struct tide_sized cosine, sine, mask;
    struct tide_sized hidden; /* the head's input: a variable of the forward, until it returns */
    struct tide_net_cache {
        struct tide_sized keys, values; /* storage -1: none */
    } * cache, *old_cache;              /* one of each per layer */
};

/* how->rank and how->trains say which parameters train. -1 and a sentence if there is no memory. */
int tide_net_init(struct tide_net *net, struct tide_tape *tape, const struct tide_architecture *model,
                  const struct tide_net_options *how, struct tide_err *err);
void tide_net_release(struct tide_net *net);

/* Shares out its weights (fully_shard.h). stays: they are whole from forward to backward. */
void tide_net_share(struct tide_net *net, struct tide_tape *tape, int first_leaf, bool stays);
/* The forward pass has returned to its caller, with what it computed from the logits. */
void tide_net_done(struct tide_net *net, struct tide_tape *tape);

/* Returns the logits for `in` (token ids, or images), or the last hidden states. */
struct tide_sized tide_net_forward(struct tide_net *net, struct tide_tape *tape, struct tide_sized in,
                                   const struct tide_net_call *call);
/* Frees the keys and values of a cache: net->cache, or net->old_cache. */
void tide_net_drop_cache(const struct tide_net *net, struct tide_tape *tape, struct tide_net_cache *cache);

/* Remakes every cache at this length, as if so many tokens had been generated. */
void tide_net_stretch_cache(struct tide_net *net, struct tide_tape *tape, int64_t batch, int64_t tokens);
/* For a caller that holds the cache while a new one is made: frees the old cache and makes the current one
 * the old cache. */
void tide_net_set_cache_aside(struct tide_net *net, struct tide_tape *tape);

#endif
