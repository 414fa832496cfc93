/*
 * tape.h - a training step by sizes alone: tensors, the graph that autograd keeps of them, and the backward
 * pass.
 *
 * A program (net.h, forecast.c) calls the operators of torch_op.h in the order in which PyTorch runs them.
 * Each output takes a block of the caching allocator (caching_allocator.h). A tensor that an operator saves
 * for the backward pass keeps its storage alive. tide_tape_backward() walks the graph from the end, allocates
 * the gradients and frees what was saved, in the order of PyTorch's engine:
 * - the gradients of all inputs are made before the output's gradient and the saved tensors are freed;
 * - a second gradient for the same tensor is added in place if nobody else holds the first and it is not a
 *   view (a matrix product's is one), else into a new tensor;
 * - a parameter takes its gradient over (no copy) once all its uses have delivered;
 * - the first product takes a workspace for the library, and the first one in the backward pass another; both
 *   stay.
 *
 * Nothing is computed. For each phase the tape notes the highest sum of allocated bytes, and who owned them
 * then; for the highest of all, also in which layers (census).
 *
 * References are explicit: an operator's result belongs to the caller, who drops it where Python would
 * (tide_tape_drop). Any failure (no memory, sizes past 2^62) sets `failed`; later calls are harmless, and the
 * program checks once at the end.
 */
#ifndef TIDE_TAPE_H
#define TIDE_TAPE_H

#include "plan/caching_allocator.h"

enum tide_part {
    TIDE_PART_WEIGHTS,
    TIDE_PART_REFERENCE,
    TIDE_PART_COPIES, /* unneeded copies of the model */
    TIDE_PART_GRADIENTS,
    TIDE_PART_OPTIMIZER,
    TIDE_PART_BUCKETS,  /* of data-parallel gradients */
    TIDE_PART_GATHERED, /* shared-out weights made whole (fully_shard.h) */
    TIDE_PART_INPUT,
    TIDE_PART_CAST, /* weights in autocast's dtype */
    TIDE_PART_RESIDUAL,
    TIDE_PART_NORM,
    TIDE_PART_ATTENTION,
    TIDE_PART_MLP,
    TIDE_PART_CONVOLUTION,
    TIDE_PART_CACHE,     /* keys and values of generation */
    TIDE_PART_HEAD,      /* logits and loss */
    TIDE_PART_BACKWARD,  /* gradients not yet delivered, and scratch */
    TIDE_PART_SCRATCH,   /* of the update */
    TIDE_PART_WORKSPACE, /* of libraries, inside the allocator */
    TIDE_PART_GAPS,      /* of a layout; an allocator's gaps belong to no tensor */
    TIDE_PART_TREES,     /* of searches, in self-play */
    TIDE_PART_REPLAY,
    TIDE_PART_EVALUATIONS, /* a cache of the net's evaluations */
    TIDE_PART_ROLLOUT,     /* in GRPO: the sequences of a step */
    TIDE_PART_REWARDS,     /* in GRPO: texts to reward, and pipes */
    TIDE_PART_PROMPTS,
    TIDE_PART_TOKENIZER,
    TIDE_PARTS
};

enum { TIDE_LAYERS_MOST = 512, TIDE_PHASES_MOST = 16 };

struct tide_sized {
    int storage;    /* -1: none */
    int node, slot; /* the node that made it, -1: none on the graph */
    int64_t count;  /* elements */
    int width;      /* bytes of one */
};

struct tide_leaf { /* a parameter */
    int64_t count;
    int width;
    int storage, gradient;     /* storage -1: shared out and not whole now */
    int group;                 /* if it is shared out (fully_shard.h); else -1 */
    int buffer, uses, arrived; /* of the current backward pass */
    struct tide_sized cast;    /* kept by autocast; storage -1: none */
    bool trains, turned;
    int64_t rows; /* of its matrix; 1: not a matrix */
    enum tide_part owner;
    bool has_state; /* of the optimizer (forecast.c), in process `rank` */
    int rank;
    struct tide_sized scratch[2]; /* of an update */
};

#define TIDE_NOTHING ((struct tide_sized){.storage = -1, .node = -1})

enum tide_edge_kind { TIDE_EDGE_NEW, TIDE_EDGE_SAME };

struct tide_edge {
    int node, slot; /* node -1: leaf */
    int leaf;
    enum tide_edge_kind kind;
    bool turned;
    int64_t bytes, scratch; /* scratch: while this gradient is made */
};

enum { TIDE_EDGES = 5, TIDE_SAVED = 8, TIDE_SLOTS = 3 };

/* Scratch in the backward pass: one piece after all results are made, or one or two pieces before them. */
enum tide_scratch_use { TIDE_SCRATCH_ONCE, TIDE_SCRATCH_BEFORE, TIDE_SCRATCH_TWICE };

struct tide_tape_node {
    struct tide_edge edges[TIDE_EDGES];
    int saved[TIDE_SAVED];
    int grads[TIDE_SLOTS];
    bool viewed[TIDE_SLOTS];        /* the gradient is a view of another tensor */
    int64_t slot_bytes[TIDE_SLOTS]; /* size of a missing gradient, which is made of zeros, as for a split;
                                       0: not needed */
    int64_t scratch;                /* in the backward pass, beside the results */
    int edge_count, saved_count;
    int again;  /* the checkpoint that it belongs to, -1: none */
    int group;  /* of weights that must be whole for its backward, -1: none */
    bool opens; /* the first node of its block: after its backward the group is done */
    short layer;
    bool multiplies;
    enum tide_scratch_use scratch_use;
};

struct tide_plan_phase {
    const char *name; /* static text */
    int64_t peak, reserved;
    int64_t owned[TIDE_PARTS];
};

struct tide_census {                                 /* what is alive at one moment */
    int64_t bytes[TIDE_PARTS][TIDE_LAYERS_MOST + 1]; /* [..][0]: outside layers */
};

struct tide_storage;
struct tide_checkpoint;
struct tide_group;

struct tide_tape;
typedef struct tide_sized tide_block_function(struct tide_tape *tape, void *context, int layer,
                                              struct tide_sized in);

struct tide_tape {
    struct tide_cacher cacher;
    struct tide_storage *storages;
    int storage_count, storage_unused;
    struct tide_tape_node *nodes;
    int node_count;
    struct tide_leaf *leaves;
    int leaf_count;
    struct tide_checkpoint *checkpoints;
    int checkpoint_count;
    size_t storage_capacity, node_capacity, leaf_capacity, checkpoint_capacity;
    int64_t owned[TIDE_PARTS];
    struct tide_plan_phase phases[TIDE_PHASES_MOST];
    int phase, phase_count;
    struct tide_census alive;   /* now */
    struct tide_census *census; /* at the peak since this was set; NULL: not wanted */
    int census_phase;           /* the phase of that peak: of several as high, the first */
    struct tide_group *groups;  /* of shared-out weights */
    int group_count;
    int group;         /* of the current block, -1: none */
    int64_t processes; /* that share the weights */
    int layer;         /* that new tensors belong to; 0: none */
    int cast_width;    /* autocast: bytes per element in matrix products; 0: off */
    bool grad;         /* a graph is kept */
    bool discards;     /* inside a checkpoint: the graph is kept, saved tensors are not */
    bool host;         /* no libraries of a GPU */
    bool compiled;     /* sums over rows are separate kernels, without scratch */
    bool fp16;         /* 16-bit types are fp16, for which cuDNN has other kernels than for bf16 */
    bool product_ran, product_ran_backward, bias_ran;
    bool failed;
};

void tide_tape_init(struct tide_tape *tape, enum tide_cacher_kind kind);
void tide_tape_release(struct tide_tape *tape);

/* Begins the phase of this name (static text). The same name again continues the same phase. */
void tide_tape_phase(struct tide_tape *tape, const char *name);

/* Adds a parameter and takes its memory, for `owner`. Returns its number. */
int tide_tape_leaf(struct tide_tape *tape, int64_t count, int width, bool trains, enum tide_part owner);

/* Takes memory of `count` elements outside the graph. */
struct tide_sized tide_tape_take(struct tide_tape *tape, int64_t count, int width, enum tide_part owner);
/* Returns the tensor. */
struct tide_sized tide_tape_keep(struct tide_tape *tape, struct tide_sized tensor);
void tide_tape_drop(struct tide_tape *tape, struct tide_sized tensor);
/* Drops what lies in a storage, and sets it to -1. */
void tide_tape_let_go(struct tide_tape *tape, int *storage);
/* Drops several, in this order. */
#define TIDE_DROP(tape, ...)                                                                                 \
    tide_tape_drop_all(tape, (const struct tide_sized[]){__VA_ARGS__},                                       \
                       sizeof((const struct tide_sized[]){__VA_ARGS__}) / sizeof(struct tide_sized))
void tide_tape_drop_all(struct tide_tape *tape, const struct tide_sized *tensors, size_t count);
/* Drops `spent`, which `next` was made from, and returns `next`: as when a variable is assigned again. */
struct tide_sized tide_then(struct tide_tape *tape, struct tide_sized spent, struct tide_sized next);

/* Building blocks of operators. With a node of -1 (no graph to keep) they do nothing. */
int tide_tape_node(struct tide_tape *tape, int64_t scratch);
/* Memory for the node's output. */
struct tide_sized tide_tape_make(struct tide_tape *tape, int node, int64_t count, int width,
                                 enum tide_part owner);
void tide_tape_scratch(struct tide_tape *tape, int node, enum tide_scratch_use use, int64_t bytes);
/* The node reads `in`, whose gradient is a new tensor, or the same as the node's. */
void tide_tape_edge(struct tide_tape *tape, int node, struct tide_sized in, enum tide_edge_kind kind);
/* turned: the gradient arrives as a transposed view, so a second one cannot be added to it in place. */
void tide_tape_leaf_edge(struct tide_tape *tape, int node, int leaf, bool turned);
/* Scratch for the gradient of the edge that was added last. */
void tide_tape_edge_scratch(struct tide_tape *tape, int node, int64_t bytes);
void tide_tape_save(struct tide_tape *tape, int node, struct tide_sized tensor);

/* Runs block() without keeping what it saves; the backward pass recomputes it. context must live until
 * then. */
struct tide_sized tide_tape_checkpoint(struct tide_tape *tape, tide_block_function *block, void *context,
                                       int layer, struct tide_sized in);

/* A matrix product ran, and its result exists. node: its backward multiplies too. */
void tide_tape_product(struct tide_tape *tape, int node);

/* A product with a bias ran. The first one takes a workspace for another library, which stays. */
void tide_tape_bias(struct tide_tape *tape);

/* Runs backward from the loss to node `from`, and frees that part of the graph. Drops the loss. */
void tide_tape_backward(struct tide_tape *tape, struct tide_sized loss, int from);
/* Frees the graph's first `count` nodes without running them. */
void tide_tape_forget(struct tide_tape *tape, int count);

/* Ends autocast's scope: frees its copies of weights. */
void tide_tape_end_cast(struct tide_tape *tape);

/* a * b and a + b, or 2^63 - 1 on overflow, which every allocation refuses. */
int64_t tide_times(int64_t a, int64_t b);
int64_t tide_plus(int64_t a, int64_t b);

#endif
