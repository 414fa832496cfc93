/*
 * sense.h - looks at a process tree and writes what it sees into a recording.
 *
 * tide_sense_new -> tide_sense_look() every tick -> tide_sense_free().
 * One look finds new members of the tree, reads the cheap counters of all, reads smaps_rollup of as many as
 * the time budget allows, reads cgroup, host and GPU counters, and calls the writer: process rows, one tick,
 * samples, smaps, gpu, limits.
 *
 * Members are the root, every process whose parent is a member and, with adopt_orphans (the tracker is a
 * child subreaper), every child of this process. A member stays one, whoever its parent becomes. Processes
 * are identified by PID and start time. Cost: one readdir of /proc, one read of stat per new PID, one pread
 * of status per member on an open descriptor.
 *
 * Shared memory that outlives its mappings (shared_memory.h) is written as a gauge of the tracker.
 *
 * The paths of /proc, /sys/fs/cgroup and /dev/shm are inputs, so that tests can show it a tree that does not
 * exist.
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
    TIDE_SENSE_KEEPER, /* keeps a pseudo-terminal */
    TIDE_SENSE_SYMBOLS,
    TIDE_SENSE_RELAY,
    TIDE_SENSE_DEPUTY, /* of the relay */
    TIDE_SENSE_SWEEPER,
    TIDE_SENSE_WITNESS,
    TIDE_SENSE_HIDDEN,
};

struct tide_sense_config {
    int64_t root;                           /* PID */
    bool adopt_orphans;                     /* children of this process are members too */
    int64_t hidden_pids[TIDE_SENSE_HIDDEN]; /* 0: none */
    int64_t smaps_budget_ppm;               /* of wall time; 10000 = 1 %; 0: never read smaps_rollup */
    int64_t limit_bytes;                    /* --limit, or TIDE_UNKNOWN */
    bool gpu;                               /* use NVML */
    const char *proc_path;                  /* "/proc" */
    const char *cgroup_path;                /* "/sys/fs/cgroup" */
    const char *shared_path;                /* "/dev/shm"; NULL: do not look */
    int64_t base_ns;                        /* tide_clock_ns() at t = 0 of the recording */
    struct tide_descriptors *descriptors;   /* shared with others that keep files open; NULL: nobody */
};

/* What a look saw, for the status line and for deciding when a tree has ended. */
struct tide_sense_view {
    struct tide_tick tick;
    int64_t cost_ns; /* of this look, without reads of PSS, which have their own budget */
};

int tide_sense_new(const struct tide_sense_config *config, struct tide_sense **ret_sense,
                   struct tide_err *err);
void tide_sense_free(struct tide_sense *sense);

/* Makes one look that starts at now_ns (tide_clock_ns()). Its tick has the time when the counters were read.
 * Returns writer errors only. A read of /proc fails if the process ended or may not be read; one that may not
 * be read stays in the tree, with unknown bytes and a note. */
int tide_sense_look(struct tide_sense *sense, struct tide_writer *writer, int64_t now_ns,
                    struct tide_sense_view *ret_view, struct tide_err *err);

/* Returns the recording's id of the process with that PID and start time; 0 if it is not a member. The PID
 * may be that of an inner namespace, which is all that a process in a container knows of itself. */
int64_t tide_sense_process_id(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks);

/* The same, of the program that the process was at a time of the clock, before its last exec or after it. */
int64_t tide_sense_process_at(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks,
                              int64_t t_ns);

/* The name of a process at the last look; "" if it is not a member. Borrowed until the next look. */
const char *tide_sense_name(const struct tide_sense *sense, int64_t pid, uint64_t start_ticks);

/* Sets how much memory of a process is the hook's, which is subtracted from the next look on. PID and start
 * time are as the process knows them. shmem_bytes: the hook's table. */
void tide_sense_hook(struct tide_sense *sense, int64_t pid, uint64_t start_ticks, int64_t anon_bytes,
                     int64_t shmem_bytes);

/* Sets which child is hidden from the next look on, in place of the previous one. 0: none. */
void tide_sense_hide(struct tide_sense *sense, enum tide_sense_hidden which, int64_t pid);

/* Call when a process was reaped with this peak (ru_maxrss), which may be higher than any look saw. */
void tide_sense_reaped(struct tide_sense *sense, int64_t pid, int64_t peak_rss_bytes);

/* Writes the end of every process that still runs (at the end of a recording). */
int tide_sense_finish(struct tide_sense *sense, struct tide_writer *writer, int64_t now_ns,
                      struct tide_err *err);

#endif
