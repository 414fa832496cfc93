/*
 * channel.h - the tracker's end of the channel (lane.h has the layout and the protocol).
 *
 * tide_channel_new (makes the directory, places.h) -> pass tide_channel_path() to the command in its
 * environment variable TIDEMARK_CHANNEL -> tide_channel_drain() every tick -> tide_channel_free (removes the
 * directory).
 *
 * Lanes are not trusted: wrong sizes, magics, counts, times and unterminated names are ignored or made
 * harmless (ring.h). At most TIDE_CHANNEL_LANES lanes are followed. A drain returns at most
 * TIDE_CHANNEL_STEPS step marks per lane, and as many items, gauges of one name, and complete phases of one
 * name. From a faster program it keeps the first, the last and an even selection between them, which loses
 * nothing that a sample could show. Marks left out this way are counted as `thinned`, which is harmless.
 * Marks that were overwritten before they were read, or that were not valid, are counted as `lost`.
 */
#ifndef TIDE_CHANNEL_H
#define TIDE_CHANNEL_H

#include "base/descriptors.h"
#include "base/err.h"
#include "channel/lane.h"
#include "channel/ring.h"

#include <stddef.h>
#include <stdint.h>

enum { TIDE_CHANNEL_LANES = 8192, TIDE_CHANNEL_STEPS = TIDE_RING_KEEP };

struct tide_channel;

/* Processes that found no room for their file (file.h). */
struct tide_channel_refused {
    uint64_t count;
    int64_t last_pid;
    uint64_t last_start;
};

/* Totals since tide_channel_new. lanes: lanes that were ever followed. */
struct tide_channel_counts {
    uint64_t lanes, events, thinned, lost;
    struct tide_channel_refused no_lane, no_table;
};

/* descriptors: the budget for lanes kept open; borrowed until the channel is freed. */
int tide_channel_new(struct tide_descriptors *descriptors, struct tide_channel **ret_channel,
                     struct tide_err *err);
void tide_channel_free(struct tide_channel *channel);

/* PID of a child of this process that removes the directory if this process is killed; 0: there is none. */
int64_t tide_channel_helper(const struct tide_channel *channel);

/* Borrowed. */
const char *tide_channel_path(const struct tide_channel *channel);

/* Calls on_mark for everything new, in order within each lane. The lane of a process that is gone is read to
 * its end and then dropped. */
int tide_channel_drain(struct tide_channel *channel, tide_ring_on_mark *on_mark, void *context,
                       struct tide_channel_counts *ret_totals, struct tide_err *err);

#endif
