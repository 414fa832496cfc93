/*
 * death.h - which process of a recorded tree was killed, by what, where in the training, and how large it
 * was.
 *
 * The kernel's OOM killer increments a count in the cgroup, which the recorder notes. The process that was
 * killed is one of the largest that were gone at that moment. Other signals are known only for the command
 * itself, and for a program whose status a shell passes on.
 */
#ifndef TIDE_DEATH_H
#define TIDE_DEATH_H

#include "assess/axis.h"
#include "assess/history.h"
#include "assess/phases.h"

enum tide_death_cause { TIDE_DEATH_NONE, TIDE_DEATH_OOM, TIDE_DEATH_SIGNAL };

struct tide_death {
    enum tide_death_cause cause;
    int signal;
    int64_t pid;
    int64_t t_ns;
    double bytes;    /* private, at the last look before it freed everything; NAN: never seen */
    bool grew_since; /* OOM: the tree was well below the limit at that look */
    double step;     /* the step that it was in; NAN: not known */
    char name[128];  /* escaped, as the phase and the limit's name */
    char phase[64];
    double limit_bytes; /* OOM: the limit that was reached; NAN: not known, or the host's memory */
    char limit_name[96];
};

/* Sets cause to TIDE_DEATH_NONE if no process was killed. */
void tide_death_find(const struct tide_history *history, const struct tide_axis *axis,
                     const struct tide_phases *phases, struct tide_death *ret_death);

#endif
