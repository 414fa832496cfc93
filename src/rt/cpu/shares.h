/*
 * shares.h - parts of a piece of work, numbered from 0, that threads take: each from the front of its own
 * share, and when that is empty from the end of another's.
 *
 * tide_shares_begin(), then tide_parallel() over the threads, each of which calls tide_share_take() until it
 * returns 0.
 */
#ifndef TIDE_SHARES_H
#define TIDE_SHARES_H

#include "rt/dtype.h"

#include <stdatomic.h>

struct tide_share {
    _Atomic uint64_t parts; /* that nobody has begun: the first, and above it the end */
    char rest[2 * TIDE_CACHE_LINE - sizeof(uint64_t)]; /* nobody else writes near it */
};

/* A share for each thread, of as many parts as the others'. */
void tide_shares_begin(struct tide_share *shares, int64_t threads, int64_t parts);

/* A thread that takes parts; victim counts from 0. */
struct tide_taker {
    struct tide_share *shares;
    int64_t threads, thread, victim;
};

/* Of its own the next ones, up to a multiple of `whole`; of another's one. How many; 0: all are taken. */
int64_t tide_share_take(struct tide_taker *taker, int64_t whole, int64_t *ret_first);

#endif
