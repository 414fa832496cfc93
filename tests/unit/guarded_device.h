/*
 * guarded_device.h - processors as a device that nobody can look into: the memory of an arena is there only
 * while one of the device's own functions runs, and none of it is lent.
 */
#ifndef TIDE_TEST_GUARDED_DEVICE_H
#define TIDE_TEST_GUARDED_DEVICE_H

#include "new_device.h"

#include <sys/mman.h>

struct tide_arena {
    struct tide_device *processors; /* whose arena this is */
    struct tide_arena *within;
    char *start;
    size_t bytes;
};

struct guarded {
    struct tide_device device;
    struct tide_device *processors;
};

/* Everything that a function of an arena does is between these. */
static inline struct tide_arena *unlocked(const struct tide_arena *a)
{
    if (mprotect(a->start, a->bytes, PROT_READ | PROT_WRITE))
        abort();
    return a->within;
}

static inline void lock(const struct tide_arena *a)
{
    if (mprotect(a->start, a->bytes, PROT_NONE))
        abort();
}

static inline struct tide_device *processors_of(const struct tide_device *device)
{
    return ((const struct guarded *)device)->processors;
}

static inline void guarded_free(struct tide_device *device)
{
    tide_device_free(processors_of(device));
    free(device);
}

static inline const char *guarded_products(const struct tide_device *device, enum tide_dtype from)
{
    return processors_of(device)->products(processors_of(device), from);
}

static inline double guarded_peak(struct tide_device *device, enum tide_dtype dtype)
{
    return processors_of(device)->peak(processors_of(device), dtype);
}

static inline size_t guarded_scratch(const struct tide_device *device, const struct tide_graph *graph,
                                     const struct tide_node *node, enum tide_direction direction,
                                     int quarters)
{
    return processors_of(device)->scratch(processors_of(device), graph, node, direction, quarters);
}

static inline size_t guarded_update_scratch(const struct tide_device *device, const struct tide_graph *graph,
                                            int tensor)
{
    return processors_of(device)->update_scratch(processors_of(device), graph, tensor);
}

static inline int guarded_take(struct tide_device *device, const struct tide_graph *graph,
                               const size_t *bytes, struct tide_arena **ret_arena, struct tide_err *err)
{
    enum { PAGE = 4096 };
    struct tide_arena *a = calloc(1, sizeof *a);
    if (!a)
        return tide_err_set(err, "out of memory");
    a->processors = processors_of(device);
    if (a->processors->take(a->processors, graph, bytes, &a->within, err)) {
        free(a);
        return -1;
    }
    for (int i = 0; i < TIDE_SECTIONS; i++)
        a->bytes += bytes[i];
    a->bytes = (a->bytes + PAGE - 1) / PAGE * PAGE;
    a->start = a->processors->lend(a->within, 0);
    lock(a);
    *ret_arena = a;
    return 0;
}

static inline void guarded_give_back(struct tide_arena *a)
{
    a->processors->give_back(unlocked(a));
    free(a);
}

static inline void guarded_write(struct tide_arena *a, size_t to, const void *from, size_t bytes)
{
    a->processors->write(unlocked(a), to, from, bytes);
    lock(a);
}

static inline void guarded_read(struct tide_arena *a, size_t from, void *to, size_t bytes)
{
    a->processors->read(unlocked(a), from, to, bytes);
    lock(a);
}

static inline double guarded_squares(struct tide_arena *a, size_t place, enum tide_dtype dtype, int64_t count)
{
    double sum = a->processors->squares(unlocked(a), place, dtype, count);
    lock(a);
    return sum;
}

static inline void guarded_copy(struct tide_arena *a, size_t to, size_t from, size_t bytes)
{
    a->processors->copy(unlocked(a), to, from, bytes);
    lock(a);
}

static inline void *guarded_lend(struct tide_arena *a, size_t place)
{
    (void)a, (void)place;
    return NULL;
}

static inline int guarded_load(struct tide_arena *a, int program, const struct tide_launch *launches,
                               int count, struct tide_err *err)
{
    int status = a->processors->load(unlocked(a), program, launches, count, err);
    lock(a);
    return status;
}

static inline void guarded_ask(struct tide_arena *a, tide_source *source, void *context)
{
    a->processors->ask(a->within, source, context);
}

static inline int guarded_run(struct tide_arena *a, int program, int64_t rows, int64_t micro_batch,
                              const struct tide_update_rule *rule, tide_watcher *watcher, void *context)
{
    int status = a->processors->run(unlocked(a), program, rows, micro_batch, rule, watcher, context);
    lock(a);
    return status;
}

static inline void guarded_update(struct tide_arena *a, const struct tide_update_rule *rule)
{
    a->processors->update(unlocked(a), rule);
    lock(a);
}

static inline float guarded_loss(struct tide_arena *a, int program)
{
    float loss = a->processors->loss(unlocked(a), program);
    lock(a);
    return loss;
}

static inline double guarded_norm(struct tide_arena *a)
{
    double norm = a->processors->norm(unlocked(a));
    lock(a);
    return norm;
}

static inline void guarded_wait(struct tide_arena *a)
{
    a->processors->wait(unlocked(a));
    lock(a);
}

/* Caller frees with tide_device_free. */
static inline struct tide_device *new_guarded_device(void)
{
    struct guarded *guarded = calloc(1, sizeof *guarded);
    if (!guarded)
        abort();
    guarded->processors = new_device(false);
    guarded->device = (struct tide_device){.free = guarded_free,
                                           .products = guarded_products,
                                           .peak = guarded_peak,
                                           .scratch = guarded_scratch,
                                           .update_scratch = guarded_update_scratch,
                                           .take = guarded_take,
                                           .give_back = guarded_give_back,
                                           .write = guarded_write,
                                           .read = guarded_read,
                                           .squares = guarded_squares,
                                           .copy = guarded_copy,
                                           .lend = guarded_lend,
                                           .load = guarded_load,
                                           .ask = guarded_ask,
                                           .run = guarded_run,
                                           .update = guarded_update,
                                           .loss = guarded_loss,
                                           .norm = guarded_norm,
                                           .wait = guarded_wait};
    return &guarded->device;
}

#endif
