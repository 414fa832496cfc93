/*
 * device.h - the interface between a training run and what computes it.
 *
 * A device has memory, from which a machine (machine.h) takes one arena, and kernels for the operators of
 * op.h. It is a table of functions, followed by the device's own data. Callers use places in an arena, in
 * bytes from its start, never pointers: only a device dereferences the memory of tensors.
 *
 * scratch() and update_scratch(), while plans are made -> take() an arena -> load() each program -> write(),
 * run(), update(), read() ... -> give_back(). Not thread-safe. There is one device: cpu/cpu_device.h.
 *
 * run() and update() may return before they are done. All other functions of an arena behave as if all
 * earlier calls had completed. After load() nothing is allocated.
 */
#ifndef TIDE_DEVICE_H
#define TIDE_DEVICE_H

#include "rt/op.h"

enum tide_action {
    TIDE_RUN,           /* a node forward */
    TIDE_RUN_RECOMPUTE, /* likewise, in the backward pass */
    TIDE_RUN_BACKWARD,  /* a node backward */
    TIDE_COPY,    /* gives one of two tensors that share a gradient its own copy: in_grad[0] = out_grad[0] */
    TIDE_MEASURE, /* the gradient of parameter `tensor` is complete: add its square to the norm */
    TIDE_UPDATE,  /* likewise: update the parameter */
    TIDE_LOAD,    /* ask for the streamed parameter `tensor`; goes to out[0] */
};

/* Stands for no place. */
#define TIDE_NOWHERE ((size_t)-1)

/* An instruction (schedule.h) with its places. */
struct tide_launch {
    enum tide_action action;
    int node;   /* -1: none */
    int tensor; /* of MEASURE, UPDATE and LOAD; of COPY: whose gradient */
    size_t in[TIDE_OPERANDS], out[TIDE_OUTPUTS], in_grad[TIDE_OPERANDS], out_grad[TIDE_OUTPUTS];
    size_t scratch, scratch_bytes;
    unsigned adds;        /* operands whose gradients are added to */
    unsigned accumulates; /* the same from the second micro-batch on: gradients of parameters */
};

/* How to do the update that follows a pass or, if fused, happens within it. */
struct tide_update_rule {
    struct tide_optimizer_step step; /* scale is computed; decay: for parameters that decay */
    float clip;                      /* 0: none */
    int64_t micro_batches;
};

/* Called after each instruction. */
typedef void tide_watcher(void *context, enum tide_action action, const struct tide_node *node);

struct tide_arena; /* each device has its own */

struct tide_device {
    /* A name for people: what matrix products of that type run in. */
    const char *(*products)(const struct tide_device *device, enum tide_dtype from);
    /* Floating-point operations per second of a large product; NAN if unknown. */
    double (*peak)(const struct tide_device *device, enum tide_dtype dtype);

    /* ---- scratch needed besides operands; 0: none */

    /* For a node. quarters: of the memory that a loss can save in its backward pass by computing twice. */
    size_t (*scratch)(const struct tide_device *device, const struct tide_graph *graph,
                      const struct tide_node *node, enum tide_direction direction, int quarters);
    /* For the update of a parameter. */
    size_t (*update_scratch)(const struct tide_device *device, const struct tide_graph *graph, int tensor);

    /* ---- memory */

    /* Allocates sections of these sizes, one after another, as zeros. The graph must outlive the arena. */
    int (*take)(const struct tide_device *device, const struct tide_graph *graph, const size_t *bytes,
                struct tide_arena **ret_arena, struct tide_err *err);
    void (*give_back)(struct tide_arena *arena);
    void (*write)(struct tide_arena *arena, size_t to, const void *from, size_t bytes);
    void (*read)(struct tide_arena *arena, size_t from, void *to, size_t bytes);
    /* The sum of squares of numbers in f32 or bf16. */
    double (*squares)(struct tide_arena *arena, size_t place, enum tide_dtype dtype, int64_t count);
    /* Copies within the arena, between places that do not overlap. */
    void (*copy)(struct tide_arena *arena, size_t to, size_t from, size_t bytes);
    /* The memory itself if it is the host's, valid until the next run or update; NULL: it is not. */
    void *(*lend)(struct tide_arena *arena, size_t place);

    /* ---- programs */

    /* Keeps a pointer to the launches. */
    int (*load)(struct tide_arena *arena, int program, const struct tide_launch *launches, int count,
                struct tide_err *err);
    /* Sets the source that programs ask for streamed parameters. */
    void (*ask)(struct tide_arena *arena, tide_source *source, void *context);
    /* Runs a program. A program that trains gets the number of its micro-batch, from 0; for others rule is
     * NULL. rows: for a program with lengths (graph.h), how many rows are used. watcher may be NULL. Returns
     * -1 if the source failed; the rest of the program was skipped. */
    int (*run)(struct tide_arena *arena, int program, int64_t rows, int64_t micro_batch,
               const struct tide_update_rule *rule, tide_watcher *watcher, void *context);
    /* Updates all parameters that train, from stored gradients. An update, here or within a pass, is skipped
     * if the last loss or the norm, if measured, is not finite. */
    void (*update)(struct tide_arena *arena, const struct tide_update_rule *rule);
    /* The sum of the losses of the program's last run. */
    float (*loss)(struct tide_arena *arena, int program);
    /* The norm of the measured gradients before clipping; NAN: none were measured. */
    double (*norm)(struct tide_arena *arena);
    void (*wait)(struct tide_arena *arena);
};

#endif
