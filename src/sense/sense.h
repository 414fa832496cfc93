/*
 * sense.h - looks at a process tree and writes what it sees into a recording.
 *
 * tide_sense_new (roots = PIDs of the tree's roots) -> tide_sense_look() every tick -> tide_sense_free().
 * One look finds new members of the tree, reads the cheap counters of all, reads smaps_rollup of as many as
 * the time budget allows, reads cgroup, host and GPU counters, and calls the writer: process rows, one tick,
 * samples, smaps, gpu, limits.
 *
 * Members: the roots and every process whose parent is a member, and, with adopt_orphans (the tracker is a
 * child subreaper), every child of this process; once a member always a member, whoever its parent becomes. A
 * process is told by PID and start time. Cost: one readdir of /proc, one read of stat for PIDs not seen
 * before, one pread of status per member on a kept descriptor.
 *
 * Shared memory that outlives its mappings (shared_memory.h) is written as a gauge of the tracker's.
 *
 * The paths of /proc, /sys/fs/cgroup and /dev/shm are inputs so that tests can show it a tree that is not
 * there.
 */
#ifndef TIDE_SENSE_H
#define TIDE_SENSE_H

#include "base/err.h"
#include "record/writer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_sense;

/* Children of this process that are never members. */
enum tide_sense_hidden {
    TIDE_SENSE_KEEPER, /* of a pseudo-terminal */
    TIDE_SENSE_SYMBOLS,
    TIDE_SENSE_RELAY,
    TIDE_SENSE_DEPUTY, /* of the relay */
    TIDE_SENSE_SWEEPER,
    TIDE_SENSE_HIDDEN,
};

struct tide_sense_config {
    const int64_t *roots;
    size_t root_count;
    bool adopt_orphans;                     /* children of this process are members too */
    int64_t hidden_pids[TIDE_SENSE_HIDDEN]; /* 0: none */
    int64_t smaps_budget_ppm;               /* of wall time; 10000 = 1 %; 0: never read smaps_rollup */
    int64_t limit_bytes;                    /* --limit, or TIDE_UNKNOWN */
    bool gpu;                               /* look for NVML */
    const char *proc_path;                  /* "/proc" */
    const char *cgroup_path;                /* "/sys/fs/cgroup" */
    const char *shared_path;                /* "/dev/shm"; NULL: not looked at */
    int64_t base_ns;                        /* tide_clock_ns() at t = 0 of the recording */
    struct tide_descriptors *descriptors;   /* shared with who else keeps files open; NULL: nobody does */
};

/* What a look saw, for the status line and for deciding when a tree has ended. */
struct tide_sense_view {
    int64_t tick;  /* id in the recording */
    int64_t alive; /* members still running */
    int64_t rss_bytes;
    int64_t counted_bytes;
    int64_t cost_ns; /* of this look, without reads of PSS, which have a budget of their own */
};

int tide_sense_new(const struct tide_sense_config *config, struct tide_sense **ret_sense,
                   struct tide_err *err);
void tide_sense_free(struct tide_sense *sense);

/* One look that begins at time now_ns (tide_clock_ns()); its tick has the moment at which counters were read.
 * Writer errors are returned; everything about /proc that fails is a process that ended or may not be read,
 * and is handled: a process whose counters may not be read stays in the tree, with unknown bytes and a note.
 */
int tide_sense_look(struct tide_sense *sense, struct tide_writer *writer, int64_t now_ns,
                    struct tide_sense_view *ret_view, struct tide_err *err);

/* The recording's id of the process with that PID and start time (start_ticks 0: whichever lives, or lived
 * last); 0 if it is not a member. With a start time the PID may be one of a namespace of its own, which is
 * all that a process in a container knows of itself. */
int64_t tide_sense_process_id(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks);

/* Its name, as of the last look; "" if it is not a member. Borrowed until the next look. */
const char *tide_sense_name(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks);

/* Says what the hook has in a process, of the PID and start time it knows of itself, from the next look on:
 * that much less is the process said to have. Of shared memory it is the hook's table. */
void tide_sense_hook(struct tide_sense *sense, int64_t pid, uint64_t start_ticks, int64_t anon_bytes,
                     int64_t shmem_bytes);

/* Says which child is not to be a member from the next look on, in the place of the last one. 0: none. */
void tide_sense_hide(struct tide_sense *sense, enum tide_sense_hidden which, int64_t pid);

/* Says that a process was reaped with this peak (ru_maxrss), which may be higher than any look saw. */
void tide_sense_reaped(struct tide_sense *sense, int64_t pid, int64_t peak_rss_bytes);

/* Writes the end of every process still open (at the end of a recording). */
int tide_sense_finish(struct tide_sense *sense, struct tide_writer *writer, int64_t now_ns,
                      struct tide_err *err);

#endif
