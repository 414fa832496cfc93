/*
 * layout.h - the offset of each value in one arena, such that no two that live at the same time overlap.
 *
 * Offline packing. Places the largest value first, each at the lowest gap between those already placed whose
 * lifetimes overlap its own (occupied.h). If that does not reach the lower bound, tries again with the
 * longest-lived first, then by bytes times lifetime, then in order of birth, and keeps the best. The lower
 * bound is the most bytes that are alive at any one instruction.
 */
#ifndef TIDE_LAYOUT_H
#define TIDE_LAYOUT_H

#include "rt/schedule.h"

struct tide_layout {
    size_t bytes;       /* of the arena */
    size_t lower_bound; /* no layout can need less */
    int peak;           /* the instruction with that many bytes alive */
    uint64_t looks;     /* what making it cost: occupied.h */
};

/* Sets the offset of every value. */
int tide_layout(struct tide_schedule *schedule, struct tide_layout *ret_layout, struct tide_err *err);

/* *ret_fits: true if a layout takes at most that many bytes. Offsets are left undefined. Most calls need no
 * layout. */
int tide_layout_fits(struct tide_schedule *schedule, size_t bytes, bool *ret_fits, struct tide_err *err);

#endif
