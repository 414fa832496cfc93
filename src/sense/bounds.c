#include "sense/bounds.h"

#include <stdio.h>
#include <string.h>

static struct tide_bound *find_or_add(struct tide_bounds *bounds, const char *name)
{
    for (size_t i = 0; i < bounds->count; i++)
        if (strncmp(bounds->items[i].name, name, TIDE_BOUND_NAME - 1) == 0)
            return &bounds->items[i];
    if (bounds->count == TIDE_BOUNDS_MAX)
        return NULL;
    struct tide_bound *bound = &bounds->items[bounds->count++];
    *bound = (struct tide_bound){.bytes = TIDE_UNKNOWN, .written_bytes = TIDE_UNKNOWN};
    snprintf(bound->name, sizeof bound->name, "%s", name);
    return bound;
}

void tide_bounds_set(struct tide_bounds *bounds, const char *name, int64_t bytes)
{
    struct tide_bound *bound = find_or_add(bounds, name);
    if (bound)
        bound->bytes = bytes < 0 ? TIDE_UNKNOWN : bytes;
}

void tide_bounds_set_wandering(struct tide_bounds *bounds, const char *name, int64_t bytes)
{
    struct tide_bound *bound = find_or_add(bounds, name);
    if (!bound)
        return;
    int64_t old = bound->bytes;
    int64_t moved = bytes < old ? old - bytes : bytes - old;
    if (old < 0 || bytes < 0 || moved > old / 20)
        tide_bounds_set(bounds, name, bytes);
}

int tide_bounds_write(struct tide_bounds *bounds, struct tide_writer *writer, int64_t t_ns,
                      struct tide_err *err)
{
    for (size_t i = 0; i < bounds->count; i++) {
        struct tide_bound *bound = &bounds->items[i];
        if (bound->bytes == bound->written_bytes)
            continue;
        struct tide_limit row = {.t_ns = t_ns, .name = bound->name, .bytes = bound->bytes};
        bound->written_bytes = bound->bytes;
        if (tide_writer_limit(writer, &row, err) != 0)
            return -1;
    }
    return 0;
}
