/*
 * ring.h - reads what is new in one lane (lane.h has the protocol).
 *
 * Nothing in a lane is trusted. A head that goes backwards or further than a writer could have
 * come, a wrong magic, a short file: the lane is refused, for good. A slot with an unknown kind or a number
 * beyond 2^53: dropped, and counted as lost. Names are ended with a NUL, times are put between the time of
 * the mark before and now, so that a lane's times never go backwards.
 *
 * Thinning: of each series of marks (steps; epochs; items; one gauge; one phase) that has more than
 * TIDE_RING_KEEP in one read, the first, the last and an even choice between are given. A phase counts by its
 * complete pairs, begin and end, which stay or go together; a begin or an end whose partner is in another
 * read always stays.
 */
#ifndef TIDE_RING_H
#define TIDE_RING_H

#include "channel/lane.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_RING_KEEP = 16 };

/* Where reading of one lane stands. Start with next = seen = 0 and last_ns = birth_ns = when the channel was
 * made. */
struct tide_ring {
    uint64_t next;    /* first slot number not read */
    uint64_t seen;    /* head at the last read: slots below it have had time to be completed */
    int64_t last_ns;  /* time of the last mark given */
    int64_t birth_ns; /* no mark is older */
};

struct tide_ring_counts {
    uint64_t events, thinned, lost;
};

/* Working memory for a read, about 800 KiB; one serves all rings. Contents are private to ring.c. */
struct tide_ring_scratch;
struct tide_ring_scratch *tide_ring_scratch_new(void);
void tide_ring_scratch_free(struct tide_ring_scratch *scratch);

/* The head of a lane, checked: magic, slot count, a head within what is possible at now_ns. */
int tide_ring_head(const struct tide_ring *ring, int fd, int64_t now_ns, struct tide_lane_head *ret_head);

/* Reads what is new, calls on_slot for each mark that is kept, in order, with its time corrected, and adds to
 * *counts. `last` says that the writer is gone: what is incomplete now stays so. -1: the lane is to be
 * refused. */
int tide_ring_read(struct tide_ring *ring, int fd, int64_t now_ns, bool last,
                   struct tide_ring_scratch *scratch,
                   void (*on_slot)(void *context, const struct tide_lane_slot *slot), void *context,
                   struct tide_ring_counts *counts);

#endif
