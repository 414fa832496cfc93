/*
 * healthy.h - memory that looks like a leak but is not one, by the code that it comes from.
 *
 * Two kinds. A phase whose memory is given back each time: what its sites held most, over what they held when
 * it began, is gone before it begins again. A cache: a site that rose and has stopped (blame.h calls it
 * bounded). Places are the program's own lines: several sites of one line are one.
 */
#ifndef TIDE_HEALTHY_H
#define TIDE_HEALTHY_H

#include "assess/assessment.h"
#include "base/arena.h"

enum tide_healthy_kind { TIDE_HEALTHY_PHASE, TIDE_HEALTHY_CACHE };

struct tide_healthy {
    enum tide_healthy_kind kind;
    const struct tide_history_site *site; /* the largest of its place */
    double bytes;   /* over what was there before, each time; of a cache, where it stopped */
    char phase[64]; /* escaped */
    double part;    /* of the phase's bytes that come from this place, 0..1 */
    size_t times;   /* that the phase ran */
    double knee_x;  /* of a cache: where it stopped */
    bool x_is_steps;
};

/* Phases whose memory is given back, the largest first, at most `most` of them into out. Returns how many;
 * -1: no memory. The assessment must be of that history. */
int tide_healthy_phases(const struct tide_history *history, const struct tide_assessment *assessment,
                        struct tide_arena *arena, struct tide_healthy *out, size_t most,
                        struct tide_err *err);

#endif
