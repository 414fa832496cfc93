/*
 * phases.h - the phases that a program named: when each began and ended, by one set of rules.
 *
 * A phase belongs to the process that named it. Phases may be nested. An end mark ends the phase of its name
 * and process that began last; an end without a begin is ignored. A phase without an end lasts until the next
 * of its name begins in that process, else until the process ends, else until the recording ends.
 */
#ifndef TIDE_PHASES_H
#define TIDE_PHASES_H

#include "assess/history.h"
#include "base/arena.h"

struct tide_phase {
    int64_t from_ns, to_ns; /* to: INT64_MAX for one that runs when the recording ends */
    int64_t process;        /* id */
    int32_t name;           /* index into the history's names */
    bool ended;             /* by an end mark */
    bool first;             /* of its name in its process */
};

/* A stretch of time in which one or more processes were in a phase of this name. */
struct tide_stretch {
    int64_t from_ns, to_ns;
    int32_t name;
    bool ended; /* all of them ended by marks */
};

struct tide_phases {
    struct tide_phase *all; /* in the order in which they began */
    size_t *by_end; /* indices in the order in which they ended; those without an end last, innermost first */
    size_t count;
    struct tide_stretch *stretches; /* in the order in which they began; those of one name do not overlap */
    size_t stretch_count;
};

/* The result lives in the arena. -1: no memory. */
int tide_phases_find(const struct tide_history *history, struct tide_arena *arena,
                     struct tide_phases *ret_phases);

/* True if a phase runs at a time. */
bool tide_phase_runs(const struct tide_phase *phase, int64_t t_ns);

/* Returns the phase that began last of those that run at a time in that process (0: in any); NULL: none. */
const struct tide_phase *tide_phases_at(const struct tide_phases *phases, int64_t process, int64_t t_ns);

#endif
