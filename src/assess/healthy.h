/*
 * healthy.h - memory that looks like a leak but is not one, by the code that it comes from.
 *
 * There are two kinds. A phase whose memory is freed each time: what its sites held at most, minus what they
 * held when it began, is gone before it begins again. A cache: a site that rose and has stopped (`bounded` in
 * blame.h). Places are the program's own lines: several sites of one line are one place.
 */
#ifndef TIDE_HEALTHY_H
#define TIDE_HEALTHY_H

#include "assess/assessment.h"
#include "base/arena.h"

enum tide_healthy_kind { TIDE_HEALTHY_PHASE, TIDE_HEALTHY_CACHE };

struct tide_healthy {
    enum tide_healthy_kind kind;
    const struct tide_history_site *site; /* the largest of its place */
    double bytes;   /* more than before the phase, each time; for a cache, the level where it stopped */
    char phase[64]; /* escaped */
    double part;    /* of the phase's bytes that come from this place, 0..1 */
    size_t times;   /* how often the phase ran */
    double knee_x;  /* of a cache: where it stopped */
    bool x_is_steps;
};

/* Finds phases whose memory is freed, largest first, at most `most` of them. Returns how many; -1: no memory.
 * The assessment must be of that history. */
int tide_healthy_phases(const struct tide_history *history, const struct tide_assessment *assessment,
                        struct tide_arena *arena, struct tide_healthy *out, size_t most,
                        struct tide_err *err);

#endif
