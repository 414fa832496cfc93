/*
 * layout.h - where values lie: offsets in one arena such that no two that live at the same time overlap.
 *
 * Offline packing: the largest value first, each at the lowest gap among those placed before whose lifetimes
 * meet its own (occupied.h); where that is not the best possible, once more with the longest-lived first,
 * then by bytes times lifetime, then as they are born, and the best of these. Against it stands the lower
 * bound, the most bytes that are alive at any one instruction.
 */
#ifndef TIDE_LAYOUT_H
#define TIDE_LAYOUT_H

#include "rt/schedule.h"

struct tide_layout {
    size_t bytes;       /* of the arena */
    size_t lower_bound; /* no layout can need less */
    int peak;           /* the instruction at which that is alive */
    uint64_t looks;     /* what it cost to make: occupied.h */
};

/* Sets the offset of every value. */
int tide_layout(struct tide_schedule *schedule, struct tide_layout *ret_layout, struct tide_err *err);

/* Whether that takes at most so many bytes; offsets are not what they would be. Most answers take no layout.
 */
int tide_layout_fits(struct tide_schedule *schedule, size_t bytes, bool *ret_fits, struct tide_err *err);

#endif
