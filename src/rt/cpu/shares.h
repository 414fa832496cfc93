/*
 * shares.h - work stealing: parts of some work, numbered from 0. Each thread takes parts from the front of
 * its own share and, when that is empty, from the end of another's.
 *
 * tide_shares_begin(), then tide_parallel() over the threads, each of which calls tide_share_take() until it
 * returns 0.
 */
#ifndef TIDE_SHARES_H
#define TIDE_SHARES_H

#include "rt/dtype.h"

#include <stdatomic.h>

struct tide_share {
    _Atomic uint64_t parts; /* not taken yet: the first, and in the upper half the end */
    char rest[2 * TIDE_CACHE_LINE - sizeof(uint64_t)]; /* keeps shares on separate cache lines */
};

/* Gives each thread a share of equally many parts. */
void tide_shares_begin(struct tide_share *shares, int64_t threads, int64_t parts);

/* A thread that takes parts; victim starts at 0. */
struct tide_taker {
    struct tide_share *shares;
    int64_t threads, thread, victim;
};

/* Takes the next parts of its own share, up to a multiple of `whole`, or one of another's. Returns how many;
 * 0: all are taken. */
int64_t tide_share_take(struct tide_taker *taker, int64_t whole, int64_t *ret_first);

#endif
