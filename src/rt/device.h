/*
 * device.h - the seam between a training run and what computes it.
 *
 * A device has memory, of which a machine (machine.h) takes one arena, and kernels for the operators of op.h.
 * It is a table of functions, followed by what those functions need. Callers know places in an arena, in
 * bytes from its start, and no pointers: only a device dereferences the memory of tensors.
 *
 * Made by a function of its own (cpu/cpu_device.h) -> scratch() and update_scratch(), while plans are made ->
 * take() an arena -> load() each program -> write(), run(), update(), read() ... -> give_back() ->
 * tide_device_free(). One thread.
 *
 * run() and update() may return before they are done. All other functions of an arena do, or answer, as if
 * everything that was asked for before were done. After load() nothing is allocated.
 */
#ifndef TIDE_DEVICE_H
#define TIDE_DEVICE_H

#include "rt/op.h"

enum tide_action {
    TIDE_RUN,           /* a node forward */
    TIDE_RUN_RECOMPUTE, /* likewise, in the backward pass */
    TIDE_RUN_BACKWARD,  /* a node backward */
    TIDE_COPY,          /* a gradient that two need, each for itself: in_grad[0] = out_grad[0] */
    TIDE_MEASURE,       /* the gradient of parameter `tensor` is whole: its square joins the norm */
    TIDE_UPDATE,        /* likewise: the parameter is updated */
    TIDE_LOAD,          /* the streamed parameter `tensor` is asked for: into out[0] */
};

/* Instead of a place. */
#define TIDE_NOWHERE ((size_t)-1)

/* An instruction (schedule.h) with its places. */
struct tide_launch {
    enum tide_action action;
    int node;   /* -1: none */
    int tensor; /* of MEASURE, UPDATE and LOAD; of COPY: whose gradient */
    size_t in[TIDE_OPERANDS], out[TIDE_OUTPUTS], in_grad[TIDE_OPERANDS], out_grad[TIDE_OUTPUTS];
    size_t scratch, scratch_bytes;
    unsigned adds;        /* operands to whose gradients is added */
    unsigned accumulates; /* likewise, from the second micro-batch on: those of parameters */
};

/* How the update that follows (or, fused, happens within) a pass is done. */
struct tide_update_rule {
    struct tide_optimizer_step step; /* scale is computed; decay: of parameters that decay */
    float clip;                      /* 0: none */
    int64_t micro_batches;
};

/* Is told of each instruction when it is done. */
typedef void tide_watcher(void *context, enum tide_action action, const struct tide_node *node);

struct tide_arena; /* each device has its own */

struct tide_device {
    void (*free)(struct tide_device *device);
    /* What matrix products of that type run in, for people. */
    const char *(*products)(const struct tide_device *device, enum tide_dtype from);
    /* Floating-point operations per second of a large product; NAN when it cannot be known. */
    double (*peak)(struct tide_device *device, enum tide_dtype dtype);

    /* ---- what is needed beside operands, 0: nothing */

    /* Of a node. quarters: of what its backward pass can spare when it does work twice, where it is a loss.
     */
    size_t (*scratch)(const struct tide_device *device, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction, int quarters);
    /* Of the update of a parameter. */
    size_t (*update_scratch)(const struct tide_device *device, const struct tide_graph *graph, int tensor);

    /* ---- memory */

    /* Sections of so many bytes, one after another, all there and zeros. The graph must outlive it. */
    int (*take)(struct tide_device *device, const struct tide_graph *graph, const size_t *bytes,
                struct tide_arena **ret_arena, struct tide_err *err);
    void (*give_back)(struct tide_arena *arena);
    void (*write)(struct tide_arena *arena, size_t to, const void *from, size_t bytes);
    void (*read)(struct tide_arena *arena, size_t from, void *to, size_t bytes);
    /* The sum of squares of numbers in f32 or bf16. */
    double (*squares)(struct tide_arena *arena, size_t place, enum tide_dtype dtype, int64_t count);
    /* Within it, between places that do not overlap. */
    void (*copy)(struct tide_arena *arena, size_t to, size_t from, size_t bytes);
    /* The memory itself, where it is the host's, until the next run or update. NULL: it is not. */
    void *(*lend)(struct tide_arena *arena, size_t place);

    /* ---- programs */

    /* The launches must stay. */
    int (*load)(struct tide_arena *arena, int program, const struct tide_launch *launches, int count,
                struct tide_err *err);
    /* Whom programs ask for parameters that are streamed. */
    void (*ask)(struct tide_arena *arena, tide_source *source, void *context);
    /* Runs a program; one that trains on a micro-batch, from 0, else rule is NULL. rows: of a program with
     * lengths (graph.h), how many are there. watcher may be NULL. -1: the source failed, and the rest was
     * left out. */
    int (*run)(struct tide_arena *arena, int program, int64_t rows, int64_t micro_batch,
               const struct tide_update_rule *rule, tide_watcher *watcher, void *context);
    /* Updates all parameters that train from gradients that are kept. An update, here or within a pass, is
     * left out when the last loss or the norm, if it is measured, is not a number. */
    void (*update)(struct tide_arena *arena, const struct tide_update_rule *rule);
    /* Of the last run of a program: the sum of its losses. */
    float (*loss)(struct tide_arena *arena, int program);
    /* Of the gradients that were measured, before they are clipped; NAN: none are. */
    double (*norm)(struct tide_arena *arena);
    void (*wait)(struct tide_arena *arena);
};

static inline void tide_device_free(struct tide_device *device)
{
    if (device)
        device->free(device);
}

#endif
