/*
 * bounds.h - the limits that apply to the tree or to a part of it, by name.
 *
 * Every look sets each limit that it knows of; a row goes into the recording only when one appeared, changed
 * or ended. Names are copied, and cut at TIDE_BOUND_NAME bytes.
 */
#ifndef TIDE_BOUNDS_H
#define TIDE_BOUNDS_H

#include "base/err.h"
#include "record/writer.h"

#include <stddef.h>
#include <stdint.h>

enum { TIDE_BOUNDS_MAX = 80, TIDE_BOUND_NAME = 512 };

struct tide_bound {
    char name[TIDE_BOUND_NAME];
    int64_t bytes;         /* TIDE_UNKNOWN: does not apply (any more) */
    int64_t written_bytes; /* what the recording says */
};

/* All zeros: there are none. */
struct tide_bounds {
    struct tide_bound items[TIDE_BOUNDS_MAX];
    size_t count;
};

/* bytes TIDE_UNKNOWN: it does not apply. */
void tide_bounds_set(struct tide_bounds *bounds, const char *name, int64_t bytes);

/* The same for a bound that wanders: kept as it is until it moved by more than a twentieth. */
void tide_bounds_set_wandering(struct tide_bounds *bounds, const char *name, int64_t bytes);

/* Writes what changed. */
int tide_bounds_write(struct tide_bounds *bounds, struct tide_writer *writer, int64_t t_ns,
                      struct tide_err *err);

#endif
