/*
 * ring.h - reads what is new in one lane (lane.h has the protocol).
 *
 * Nothing in a lane is trusted. If the head goes backwards or is further than a writer could have come, the
 * magic is wrong, or the file is too short, the lane is refused for good. A slot with an unknown kind or a
 * number beyond 2^53 is dropped and counted as lost. Names are NUL-terminated. Times are clamped between the
 * time of the previous mark and now, so a lane's times never go backwards.
 *
 * Thinning: of each series of marks (steps; epochs; items; one gauge; one phase) with more than
 * TIDE_RING_KEEP marks in one read, the first, the last and an even selection between them are kept. A phase
 * counts by its complete pairs of begin and end, which stay or go together. A begin or an end whose partner
 * is in another read always stays.
 */
#ifndef TIDE_RING_H
#define TIDE_RING_H

#include "channel/lane.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_RING_KEEP = 16 };

/* A mark of a process: checked, not later than the read, with an unescaped name; valid during the call. */
typedef void tide_ring_on_mark(void *context, int64_t pid, uint64_t start_ticks,
                               const struct tide_lane_slot *mark);

/* The state of reading one lane. Start with next = seen = 0 and last_ns = birth_ns = when the channel was
 * made. */
struct tide_ring {
    int64_t pid; /* of the process whose lane it is, and its start time */
    uint64_t start_ticks;
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

/* Reads the head of a lane and checks its magic, slot count, and that it is possible at now_ns. */
int tide_ring_head(const struct tide_ring *ring, int fd, int64_t now_ns, struct tide_lane_head *ret_head);

/* Reads what is new, calls on_mark in order for each mark that is kept, with its time clamped, and adds to
 * *counts. `last`: the writer is gone, so incomplete slots stay incomplete. -1: the lane is to be refused. */
int tide_ring_read(struct tide_ring *ring, int fd, int64_t now_ns, bool last,
                   struct tide_ring_scratch *scratch, tide_ring_on_mark *on_mark, void *context,
                   struct tide_ring_counts *counts);

#endif
