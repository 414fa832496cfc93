/*
 * blame_private.h - one look for culprits in progress: what blame.c (which sites grow), rise.c (which hold
 * more for a while), accuse.c (which of them explain what is accused) and holders.c (who holds it) share.
 * Nothing else includes it.
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

/* Makes one culprit of those that meet in one line, with the others as its callers, or that look the same to
 * a person. -1: no memory. */
int tide_blaming_join(struct tide_blaming *blaming);

/* Whether what is held for a while is the answer, and not what is kept. */
bool tide_blaming_is_of_peaks(const struct tide_judged *worst);

/* Fills rise_ns, and finds when what rises was at its peak. -1: no memory. */
int tide_blaming_find_rise(struct tide_blaming *blaming, int64_t *ret_t_ns);

/* By how much more a site held then than before the rise; 0: it has no part in it. */
double tide_blaming_rise(const struct tide_blaming *blaming, const struct tide_history_site *site,
                         int64_t at_ns, double *ret_blocks);

/* Finds out who holds what the culprits allocate. */
void tide_blaming_hold(struct tide_blaming *blaming);

#endif
