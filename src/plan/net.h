/*
 * net.h - the models as programs on the tape: which operators transformers and torchvision call, in which
 * order, and when Python lets go of what they returned.
 *
 * tide_net_init takes the parameters -> tide_net_forward, any number of times -> tide_net_release. The net
 * must outlive every graph that was made with it: a checkpointed block runs again from it.
 */
#ifndef TIDE_NET_H
#define TIDE_NET_H

#include "plan/model.h"
#include "plan/torch_op.h"

struct tide_linear {
    int weight, bias, down, up; /* leaves; down and up: a low-rank adapter, -1: none */
    int64_t in, out, rank;
    bool turned;             /* the weight lies as (out, in) */
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

struct tide_stage_block { /* of a ResNet: convolution and batch norm, three or two times, and a shortcut */
    struct tide_linear conv[4];
    struct tide_norm norm[4];
    int64_t stride;
};

struct tide_net_options {
    int width;       /* bytes of a weight */
    int64_t rank;    /* of adapters on every linear layer but the head; 0: none */
    bool trains;     /* the model's own weights do */
    bool eager;      /* attention operator by operator */
    bool checkpoint; /* every block */
    bool compiled;
    bool dropout; /* training mode */
    enum tide_part owner;
};

struct tide_net {
    const struct tide_architecture *model;
    struct tide_net_options how;
    struct tide_layer *layers;
    struct tide_stage_block *blocks;
    int token_table, position_table, class_token;
    struct tide_linear head, patches; /* patches: also the first convolution of a ResNet */
    struct tide_norm last;
    int group; /* of the first block's weights, where they are shared out (fully_shard.h); -1: not */
    /* the call under way, or the last one */
    int64_t batch, rows, past; /* rows: of one sequence */
    bool masked, caches;
    struct tide_sized cosine, sine, mask;
    struct tide_sized hidden; /* what the head gets: a variable of the forward, until it returns */
    struct tide_net_cache {
        struct tide_sized keys, values; /* storage -1: none */
    } * cache, *old_cache;              /* one of each per layer */
};

/* rank and trains: which parameters train. -1 and a sentence without memory. */
int tide_net_init(struct tide_net *net, struct tide_tape *tape, const struct tide_architecture *model,
                  const struct tide_net_options *how, struct tide_err *err);
void tide_net_release(struct tide_net *net);

/* Its weights are shared out; stays: they are whole from the forward to the way back. */
void tide_net_share(struct tide_net *net, struct tide_tape *tape, int first_leaf, bool stays);
/* The forward has returned to who called it, with what it made of the logits. */
void tide_net_done(struct tide_net *net, struct tide_tape *tape);

struct tide_net_call {
    int64_t batch, rows, past; /* rows: new tokens of each sequence, or the side of a picture */
    int64_t logits;            /* of how many rows per sequence; 0: all */
    bool masked;               /* sequences of different length in one batch */
    bool caches;               /* keys and values are kept (text) */
    bool headless;             /* no logits: what the head would get (text) */
};

/* Logits of in (token ids, or pictures), or the last hidden states. */
struct tide_sized tide_net_forward(struct tide_net *net, struct tide_tape *tape, struct tide_sized in,
                                   const struct tide_net_call *call);
/* Lets go of the keys and values. */
void tide_net_drop_cache(struct tide_net *net, struct tide_tape *tape);

/* As if so many tokens had been generated since: every cache is made anew at that length. */
void tide_net_stretch_cache(struct tide_net *net, struct tide_tape *tape, int64_t batch, int64_t tokens);
/* Somebody holds them while others are made: sets them aside, and lets go of those that were aside; lets go
 * of those. */
void tide_net_set_cache_aside(struct tide_net *net, struct tide_tape *tape);
void tide_net_drop_old_cache(struct tide_net *net, struct tide_tape *tape);

/* For the nets themselves. */
int tide_net_weight(const struct tide_net *net, struct tide_tape *tape, int64_t count);
struct tide_linear tide_net_linear(struct tide_net *net, struct tide_tape *tape, int64_t in, int64_t out,
                                   bool bias, bool adapts);
struct tide_norm tide_net_norm(struct tide_net *net, struct tide_tape *tape, int64_t channels, bool bias);
struct tide_sized tide_net_apply(struct tide_tape *tape, const struct tide_linear *linear,
                                 struct tide_sized x, enum tide_part owner);
struct tide_sized tide_net_run_blocks(struct tide_net *net, struct tide_tape *tape,
                                      tide_block_function *block, struct tide_sized x);
struct tide_sized tide_net_normalise(struct tide_net *net, struct tide_tape *tape,
                                     const struct tide_norm *norm, struct tide_sized x);
/* Llama's block, and ViT's. */
struct tide_sized tide_net_block(struct tide_tape *tape, void *context, int layer, struct tide_sized x);
void tide_net_init_pictures(struct tide_net *net, struct tide_tape *tape);
struct tide_sized tide_net_see(struct tide_net *net, struct tide_tape *tape, struct tide_sized pictures);

#endif
