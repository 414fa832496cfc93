/*
 * cgroup.h - the control group of a process: its memory, its limits, and whom the kernel killed in it.
 *
 * tide_cgroup_init -> tide_cgroup_follow() now and then (finds the group of a process and the limits above
 * it; cheap when nothing moved) -> tide_cgroup_read() every look -> tide_cgroup_release().
 *
 * Supports version 2, version 1 and hosts that mix both: memory counters come from whichever hierarchy has
 * them. A group's directory is the mount point plus the path in /proc/PID/cgroup. In a container that path
 * may start with "/.." or with directories that are not mounted, so leading parts are dropped until a
 * directory exists. All limits from the group up to the mount point apply, and the lowest counts.
 */
#ifndef TIDE_CGROUP_H
#define TIDE_CGROUP_H

#include "sense/proc_parse.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_CGROUP_DIRECTORY = 2 * TIDE_PROC_CGROUP_PATH, TIDE_CGROUP_NAME = 256 };

struct tide_cgroup {
    const char *root; /* "/sys/fs/cgroup"; borrowed */
    int proc_fd;      /* borrowed */

    bool unified;                          /* the memory files are version 2's */
    char directory[TIDE_CGROUP_DIRECTORY]; /* of the group; "" when there is none */
    size_t mount_len;                      /* how many of its bytes are the mount point */
    struct tide_proc_cgroup paths;         /* from /proc/PID/cgroup, when the directory was found */

    int64_t limit_bytes;               /* the lowest, or TIDE_UNKNOWN */
    char limit_name[TIDE_CGROUP_NAME]; /* "cgroup /a/b memory.max" */
    int64_t high_bytes;                /* the lowest memory.high, above which the kernel slows the group */
    char high_name[TIDE_CGROUP_NAME];

    int current_fd, peak_fd, events_fd, pressure_fd; /* -1: there is none */
    int limit_events_fd;                             /* of the group with the lowest limit */

    int64_t current_bytes, peak_bytes, pressure_ppm; /* of the last read; TIDE_UNKNOWN */
    int64_t kills;                                   /* processes of the group that the kernel killed */
    int64_t
        kills_before; /* of these, before the process was seen in the group; TIDE_UNKNOWN without a group */
    int64_t hits;     /* times that the lowest limit was reached */
};

/* proc_fd is an open /proc. */
void tide_cgroup_init(struct tide_cgroup *cgroup, const char *root, int proc_fd);

/* Leaves the group: nothing is known of it any more. */
void tide_cgroup_release(struct tide_cgroup *cgroup);

/* Looks up the group of process pid and all limits. If the process is gone or about to end, keeps the group
 * it was in. */
void tide_cgroup_follow(struct tide_cgroup *cgroup, int64_t pid);

void tide_cgroup_read(struct tide_cgroup *cgroup);

#endif
