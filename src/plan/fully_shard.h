/*
 * fully_shard.h - weights shared out among several processes by PyTorch's fully_shard, as seen by one of
 * them.
 *
 * The parameters of a block form a group; all others of a net form another, the outer group. A process keeps
 * a part of each parameter. Before a block runs, its group is made whole: gathered into one flat piece (on a
 * stream of its own), which is taken apart into the parameters. The flat piece is held until the next group
 * is whole. After the block the parameters are freed, unless `stays` is true; the outer group stays until the
 * backward pass is done. In the backward pass, the previous block's group is gathered ahead. After a block's
 * backward, its gradients are copied into one flat piece, which is held until the next one is made, and
 * summed into this process's part of them, one piece per group.
 *
 * Call tide_shard_net once a net has its parameters. The net calls enter and leave around its blocks, and
 * done at the end of its forward; the tape calls before_backward and after_backward.
 */
#ifndef TIDE_FULLY_SHARD_H
#define TIDE_FULLY_SHARD_H

#include "plan/tape.h"

struct tide_group {
    int first, end;             /* its leaves are in this range */
    int outer;                  /* the outer group of its net; the outer group names itself */
    int before;                 /* the group to gather ahead in the backward pass, -1: none */
    bool stays;                 /* it is whole from forward to backward */
    bool whole;                 /* it is whole now */
    struct tide_sized ahead;    /* gathered, not yet taken apart */
    struct tide_sized gradient; /* this process's part */
    /* only in the outer group, for all of its net */
    struct tide_sized held;   /* the flat piece that was last taken apart */
    struct tide_sized summed; /* gradients copied together for the last sum */
};

/* Returns the number of a parameter's elements in one process. */
int64_t tide_shard_part(const struct tide_leaf *leaf, int64_t processes);

/* Makes groups of a net's leaves. Block i begins at starts[i] and the last ends at blocks_end; the rest of
 * first..end-1 is the outer group. Returns the first block's group; the outer one follows the last. -1: no
 * memory. */
int tide_shard_net(struct tide_tape *tape, int first, int end, const int *starts, int blocks, int blocks_end,
                   bool stays);

void tide_shard_enter(struct tide_tape *tape, int group);
void tide_shard_leave(struct tide_tape *tape, int group);
/* The net's forward pass has returned. */
void tide_shard_done(struct tide_tape *tape, int outer);

void tide_shard_before_backward(struct tide_tape *tape, int group);
void tide_shard_after_backward(struct tide_tape *tape, int group);
/* zero_grad. */
void tide_shard_drop_gradients(struct tide_tape *tape);

#endif
