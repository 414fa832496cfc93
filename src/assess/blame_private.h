/*
 * blame_private.h - one look for culprits in progress: what blame.c (which sites grow), accuse.c (which of
 * them explain what is accused) and holders.c (who holds it) share. Nothing else includes it.
 */
#ifndef TIDE_BLAME_PRIVATE_H
#define TIDE_BLAME_PRIVATE_H

#include "assess/blame.h"

#define TIDE_BLAME_LEAST_SHARE 0.005 /* of what is asked about: less is said as 0 % */

struct tide_blaming {
    const struct tide_history *h;
    struct tide_assessment *a;
    const struct tide_blame_options *options;
    struct tide_blame *b;
    int64_t from_ns, to_ns; /* the stretch that is looked at: training, or between two steps */
    int64_t rise_ns;        /* TIDE_BLAME_RISE: until then nothing had risen */
    int32_t phase;          /* TIDE_BLAME_PHASE: which of the history's names */
    struct tide_err *err;
};

/* Whether the verdict is about a process, or about all. */
bool tide_blaming_is_about(const struct tide_blaming *blaming, int64_t process);

/* Leaves the culprits that explain the growth that the verdict is about, with their shares of it, the largest
 * first. */
void tide_blaming_accuse(struct tide_blaming *blaming);

/* Makes one culprit of those that meet in one line, with the others as its callers. -1: no memory. */
int tide_blaming_join(struct tide_blaming *blaming);

/* Finds out who holds what the culprits allocate. */
void tide_blaming_hold(struct tide_blaming *blaming);

#endif
