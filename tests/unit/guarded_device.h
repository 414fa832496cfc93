/*
 * guarded_device.h - processors as a device that nobody can look into: the memory of an arena is there only
 * while one of the device's own functions runs, and none of it is lent.
 */
#ifndef TIDE_TEST_GUARDED_DEVICE_H
#define TIDE_TEST_GUARDED_DEVICE_H

#include "rt/cpu/cpu_device.h"

#include <sys/mman.h>

struct tide_arena {
    struct tide_arena *within;
    char *start;
    size_t bytes;
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

static inline const char *guarded_products(const struct tide_device *device, enum tide_dtype from)
{
    return tide_cpu_device.products(device, from);
}

static inline double guarded_peak(const struct tide_device *device, enum tide_dtype dtype)
{
    return tide_cpu_device.peak(device, dtype);
}

static inline size_t guarded_scratch(const struct tide_device *device, const struct tide_graph *graph,
                                     const struct tide_node *node, enum tide_direction direction,
                                     int quarters)
{
    return tide_cpu_device.scratch(device, graph, node, direction, quarters);
}

static inline size_t guarded_update_scratch(const struct tide_device *device, const struct tide_graph *graph,
                                            int tensor)
{
    return tide_cpu_device.update_scratch(device, graph, tensor);
}

static inline int guarded_take(const struct tide_device *device, const struct tide_graph *graph,
                               const size_t *bytes, struct tide_arena **ret_arena, struct tide_err *err)
{
    enum { PAGE = 4096 };
    struct tide_arena *a = calloc(1, sizeof *a);
    if (!a)
        return tide_err_set(err, "out of memory");
    if (tide_cpu_device.take(device, graph, bytes, &a->within, err)) {
        free(a);
        return -1;
    }
    for (int i = 0; i < TIDE_SECTIONS; i++)
        a->bytes += bytes[i];
    a->bytes = (a->bytes + PAGE - 1) / PAGE * PAGE;
    a->start = tide_cpu_device.lend(a->within, 0);
    lock(a);
    *ret_arena = a;
    return 0;
}

static inline void guarded_give_back(struct tide_arena *a)
{
    tide_cpu_device.give_back(unlocked(a));
    free(a);
}

static inline void guarded_write(struct tide_arena *a, size_t to, const void *from, size_t bytes)
{
    tide_cpu_device.write(unlocked(a), to, from, bytes);
    lock(a);
}

static inline void guarded_read(struct tide_arena *a, size_t from, void *to, size_t bytes)
{
    tide_cpu_device.read(unlocked(a), from, to, bytes);
    lock(a);
}

static inline double guarded_squares(struct tide_arena *a, size_t place, enum tide_dtype dtype, int64_t count)
{
    double sum = tide_cpu_device.squares(unlocked(a), place, dtype, count);
    lock(a);
    return sum;
}

static inline void guarded_copy(struct tide_arena *a, size_t to, size_t from, size_t bytes)
{
    tide_cpu_device.copy(unlocked(a), to, from, bytes);
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
    int status = tide_cpu_device.load(unlocked(a), program, launches, count, err);
    lock(a);
    return status;
}

static inline void guarded_ask(struct tide_arena *a, tide_source *source, void *context)
{
    tide_cpu_device.ask(a->within, source, context);
}

static inline int guarded_run(struct tide_arena *a, int program, int64_t rows, int64_t micro_batch,
                              const struct tide_update_rule *rule, tide_watcher *watcher, void *context)
{
    int status = tide_cpu_device.run(unlocked(a), program, rows, micro_batch, rule, watcher, context);
    lock(a);
    return status;
}

static inline void guarded_update(struct tide_arena *a, const struct tide_update_rule *rule)
{
    tide_cpu_device.update(unlocked(a), rule);
    lock(a);
}

static inline float guarded_loss(struct tide_arena *a, int program)
{
    float loss = tide_cpu_device.loss(unlocked(a), program);
    lock(a);
    return loss;
}

static inline double guarded_norm(struct tide_arena *a)
{
    double norm = tide_cpu_device.norm(unlocked(a));
    lock(a);
    return norm;
}

static inline void guarded_wait(struct tide_arena *a)
{
    tide_cpu_device.wait(unlocked(a));
    lock(a);
}

static const struct tide_device guarded_device = {.products = guarded_products,
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

#endif
