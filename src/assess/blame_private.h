/*
 * blame_private.h - the state of one search for culprits, shared by blame.c (which sites grow, or hold more
 * for a while), accuse.c (which of them explain the verdict) and holders.c (who holds it). Nothing
 * else includes it.
 */
#ifndef TIDE_BLAME_PRIVATE_H
#define TIDE_BLAME_PRIVATE_H

#include "assess/blame.h"

#define TIDE_BLAME_LEAST_SHARE 0.005 /* of what is asked about: less is printed as 0 % */

struct tide_blaming {
    const struct tide_history *h;
    struct tide_assessment *a;
    const struct tide_blame_options *options;
    struct tide_blame *b;
    int64_t from_ns, to_ns; /* the time that is looked at: training, or between two steps */
    int64_t rise_ns;        /* TIDE_BLAME_RISE: nothing had risen before */
    int32_t phase;          /* TIDE_BLAME_PHASE: which of the history's names */
    struct tide_err *err;
};

/* True if the verdict is about this process, or about all. */
bool tide_blaming_is_about(const struct tide_blaming *blaming, int64_t process);

/* Keeps the culprits that explain the growth that the verdict is about, largest first, with their shares. */
void tide_blaming_accuse(struct tide_blaming *blaming);

/* Joins culprits that meet in one line, the others becoming callers, or that look the same. -1: no memory. */
int tide_blaming_join(struct tide_blaming *blaming);

/* Lists phases whose memory is freed, and the largest of the sites that rose and stopped. -1: no memory.
 * (healthy.c) */
int tide_blaming_find_healthy(struct tide_blaming *blaming);

/* Finds out who holds what the culprits allocate. */
void tide_blaming_hold(struct tide_blaming *blaming);

#endif
