/*
 * fully_shard.h - weights that several processes share out, as PyTorch's fully_shard does: one process' part.
 *
 * The parameters of a block are a group, and all the others of a net another, the outer one. Of each
 * parameter a process keeps a part. A group is made whole before its block runs: gathered into one flat piece
 * (on a stream of its own), which is taken apart into the parameters; the flat piece is held until the next
 * group is whole. After the block the parameters go, if `stays` is false; the outer group's stay until the
 * way back is done. On the way back the group of the block before is gathered ahead. Once a block is done,
 * its gradients are laid into one flat piece, which is held until the next one comes, and summed into this
 * process' part of them, one piece per group.
 *
 * tide_shard_net once a net has its parameters; the net calls enter and leave around its blocks, done at the
 * end of its forward; the tape calls before_back and after_back.
 */
#ifndef TIDE_FULLY_SHARD_H
#define TIDE_FULLY_SHARD_H

#include "plan/tape.h"

struct tide_group {
    int first, end;             /* its leaves are among these */
    int outer;                  /* the outer group of its net, itself for that one */
    int before;                 /* the group that is gathered ahead on the way back, -1: none */
    bool stays;                 /* whole from the forward to the way back */
    bool whole;                 /* now */
    struct tide_sized ahead;    /* gathered, not yet taken apart */
    struct tide_sized gradient; /* this process' part */
    /* of the outer group, for all of its net */
    struct tide_sized held;   /* the flat piece that was taken apart last */
    struct tide_sized summed; /* gradients laid together for the last sum */
};

/* A parameter's elements in one process. */
int64_t tide_shard_part(const struct tide_leaf *leaf, int64_t processes);

/* Makes groups of a net's leaves: block i has those from starts[i] to ends[i]; the rest of first..end-1 are
 * outside of blocks. Returns the first block's group; the outer one follows the last. -1: no memory. */
int tide_shard_net(struct tide_tape *tape, int first, int end, const int *starts, int blocks, int blocks_end,
                   bool stays);

void tide_shard_enter(struct tide_tape *tape, int group);
void tide_shard_leave(struct tide_tape *tape, int group);
/* The net's forward has returned. */
void tide_shard_done(struct tide_tape *tape, int outer);

void tide_shard_before_back(struct tide_tape *tape, int group);
void tide_shard_after_back(struct tide_tape *tape, int group);
void tide_shard_end_back(struct tide_tape *tape, int outer);
/* zero_grad. */
void tide_shard_drop_gradients(struct tide_tape *tape);

#endif
