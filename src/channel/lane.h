/*
 * lane.h - the layout of the memory through which a tracked process sends marks to its tracker.
 *
 * The tracker makes a channel: a directory, mode 0700, on a memory file system, and puts its path into the
 * environment as TIDEMARK_CHANNEL. A process that has a mark to send creates one file there, its lane
 * (file.h), named "marks-PID-START" (a writer in another language adds a suffix, "marks-PID-START-py"), of
 * exactly TIDE_LANE_BYTES, maps it and writes marks into a ring. A forked child leaves the parent's lane
 * alone and makes its own at its first mark. The tracker reads with pread and never maps a lane, because a
 * hostile process could truncate it. The last marks of a process can still be read after it was killed.
 *
 * Writing slot number n (n = head, taken with an atomic add, so that several threads can write):
 *     slot = slots[n % TIDE_LANE_SLOTS]; set slot.sequence to TIDE_LANE_BUSY by compare and exchange if its
 *     old value is <= n (otherwise another thread is writing it or is a ring ahead: take another n); fill the
 *     rest; slot.sequence = n + 1 (release).
 * Reading: read head, the sequences of the new slots, their contents, then head again. A slot is good if
 * sequence == n + 1 and n + TIDE_LANE_SLOTS >= second head; otherwise it was overwritten in the meantime and
 * counts as lost. A slot whose sequence is not yet n + 1 ends the read, unless it was taken before the last
 * read: then its writer died or took another slot, and it counts as lost.
 *
 * All numbers are little-endian native; another layout has another magic.
 */
#ifndef TIDE_LANE_H
#define TIDE_LANE_H

#include "base/kinds.h"

#include <stdatomic.h>
#include <stdint.h>

#define TIDE_CHANNEL_ENV "TIDEMARK_CHANNEL"
#define TIDE_LANE_MAGIC  UINT64_C(0x31656e616c646974) /* the bytes "tidlane1" */
#define TIDE_LANE_BUSY   (UINT64_C(1) << 63)          /* a slot's sequence while it is written */

enum { TIDE_LANE_SLOTS = 2048, TIDE_LANE_NAME = 96 };

struct tide_lane_head {
    uint64_t magic; /* written last by the creator */
    uint32_t pid;
    uint32_t slot_count;
    uint64_t start_ticks;
    _Atomic uint64_t head; /* slots taken so far */
    uint8_t reserved[96];
};

struct tide_lane_slot {
    _Atomic uint64_t sequence; /* 0: never used; TIDE_LANE_BUSY; n + 1 once complete */
    int64_t t_ns;              /* CLOCK_MONOTONIC */
    int64_t number;
    uint32_t kind;             /* enum tide_mark_kind */
    uint32_t tid;              /* thread, or 0 */
    char name[TIDE_LANE_NAME]; /* NUL-terminated */
};

_Static_assert(sizeof(struct tide_lane_head) == 128, "lane head is 128 bytes in every language");
_Static_assert(sizeof(struct tide_lane_slot) == 128, "lane slot is 128 bytes in every language");

#define TIDE_LANE_BYTES (sizeof(struct tide_lane_head) + TIDE_LANE_SLOTS * sizeof(struct tide_lane_slot))

#endif
