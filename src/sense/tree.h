/*
 * tree.h - who is a member of the process tree, and what its cheap counters say.
 *
 * tide_tree_init -> tide_tree_add_root()... -> repeat { tide_tree_scan(), tide_tree_read() } ->
 * tide_tree_release().
 *
 * A scan lists /proc and reads stat only of PIDs that it has not seen; a PID is taken for another process
 * when the inode of its directory changed, and then its start time decides. Outsiders (processes not of the
 * tree) are looked at again now and then, in case a file system reuses inodes. A process whose parent is not
 * known yet is looked at again in the next scan. This process itself is never a member.
 *
 * Nothing is listed while no PID was given out since the last time, which /proc/loadavg tells, and nothing is
 * left to find out: on a machine that starts no processes a scan is one small read.
 *
 * A member that ended stays in the table, with `ended` set, until its PID is gone from /proc (a zombie) and
 * one more scan has passed, so that its last row can be written; then tide_tree_scan frees it.
 *
 * Pointers to members stay valid until the scan that frees them. One thread.
 */
#ifndef TIDE_TREE_H
#define TIDE_TREE_H

#include "base/descriptors.h"
#include "base/err.h"
#include "base/map.h"
#include "sense/proc_parse.h"
#include "sense/role.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIDE_TREE_MEMBERS = 65536, /* at once; more are counted but not followed */
    TIDE_TREE_HIDDEN = 5,
    TIDE_TREE_COMMAND = 4096, /* bytes of a command line that are kept */
};

/* What is known of a member's PSS (smaps.c's). */
struct tide_member_smaps {
    int64_t pss_bytes;       /* TIDE_UNKNOWN until the first read */
    int64_t pss_shmem_bytes; /* of these; TIDE_UNKNOWN where the kernel does not tell */
    int64_t uss_bytes;
    int64_t swap_pss_bytes;
    int64_t unreserved_bytes; /* TIDE_UNKNOWN: not read, because there is little that is not touched */
    int64_t asked_then;       /* when that was read */
    int64_t cost_ns;
    int64_t read_ns;   /* when */
    int64_t anon_then; /* its counters at that time */
    int64_t swap_then;
    int64_t rss_then;
    double ns_per_byte; /* what reads cost; 0 until the first */
    int64_t shared_ns;  /* when sharing with its children last changed: one was forked, or ended */
    bool end_seen;      /* its end was taken into account */
    bool refused;       /* may not be read */
    bool fresh;         /* read in this look: a row is due */
};

/* Which GPUs a member holds open (gpu.c's). */
struct tide_member_gpu {
    uint64_t devices;   /* bit n: /dev/nvidiaN */
    int64_t checked_ns; /* TIDE_UNKNOWN: never */
    int64_t driver_pid; /* the PID by which NVML calls it; TIDE_UNKNOWN until told */
};

struct tide_member {
    int64_t pid;
    uint64_t start_ticks;
    int64_t parent_pid;
    int64_t id;        /* in the recording; 0 until written */
    int64_t parent_id; /* of the parent in the recording; 0: none */
    int64_t began_ns;  /* first sight */
    int64_t ended_ns;  /* meaningful when ended */
    bool ended;
    bool gone;      /* its PID is no longer in /proc */
    bool row_stale; /* the recording's row must be written again */
    bool noted;     /* a note that it cannot be read was written */
    int unreadable; /* errno, when its counters could not be read; else 0 */

    struct tide_proc_status now; /* the last status read; bytes are TIDE_UNKNOWN when it could not be */
    int64_t hook_anon_bytes;     /* what the hook has in it, which is taken off all that is read of it */
    int64_t hook_shmem_bytes;
    int64_t first_rss_bytes; /* RSS at first sight; TIDE_UNKNOWN before */
    bool forked;             /* runs what its parent runs: it shares what it had at first sight */
    int64_t peak_bytes;      /* highest ever said, or TIDE_UNKNOWN */
    int64_t peak_written_bytes;
    int64_t row_ns; /* when its row was last written */

    char *args; /* owned: /proc/PID/cmdline as it is, args_len bytes and a NUL */
    size_t args_len;
    int64_t args_ns; /* when they were read */
    int64_t rank;    /* see role.h */
    char base[TIDE_ROLE_MAX];
    char role[TIDE_ROLE_MAX];

    struct tide_member_smaps smaps;
    struct tide_member_gpu gpu;

    uint64_t inode; /* of its directory */
    uint64_t scan;  /* number of the last scan that saw it */
    int status_fd;  /* -1: opened anew for each read */
};

struct tide_tree {
    DIR *proc;
    int proc_fd; /* of proc: borrowed by who reads files there */
    bool adopt_orphans;
    int64_t self_pid;
    int64_t hidden_pids[TIDE_TREE_HIDDEN]; /* never members; 0: none */
    struct tide_member **members;          /* in order of first sight */
    size_t member_count, member_capacity;
    struct tide_map by_pid;    /* -> struct tide_member *, those not gone */
    struct tide_map outsiders; /* pid -> inode and scan, packed */
    uint64_t scans;
    int loadavg_fd;                       /* -1: not there, or not to be trusted */
    int64_t newest_pid;                   /* given out before the last listing; 0: not known */
    int64_t runnable;                     /* threads of the host that would run, without ours; TIDE_UNKNOWN */
    unsigned skipped;                     /* scans since, in a row */
    bool unsettled;                       /* the last listing left a question open */
    struct tide_descriptors *descriptors; /* for files of status; its own unless somebody shares theirs */
    struct tide_descriptors own_descriptors;
    bool overflowed; /* there were more members than are followed */
    struct tide_tree_candidate *candidates;
    size_t candidate_count, candidate_capacity;
    char *text; /* scratch for file contents */
};

/* On failure nothing is held. */
int tide_tree_init(struct tide_tree *tree, const char *proc_path, bool adopt_orphans, struct tide_err *err);
void tide_tree_release(struct tide_tree *tree);

/* A process that is a member whatever its parent. Fails with a sentence when there is no such process. */
int tide_tree_add_root(struct tide_tree *tree, int64_t pid, int64_t now_ns, struct tide_err *err);

/* Finds new members, and those that are gone. Running out of memory leaves processes unseen until a later
 * scan. */
int tide_tree_scan(struct tide_tree *tree, int64_t now_ns, struct tide_err *err);

/* Reads the counters of all members that have not ended. */
void tide_tree_read(struct tide_tree *tree, int64_t now_ns);

/* The member that has this PID now (it may have ended, when it is a zombie), or NULL. Borrowed. */
struct tide_member *tide_tree_find(const struct tide_tree *tree, int64_t pid);

/* Whether the last scan saw a process with this PID, member or not. */
bool tide_tree_saw(const struct tide_tree *tree, int64_t pid);

/* Whether it has this PID, here or in a namespace nested in ours. */
bool tide_member_is_called(const struct tide_member *member, int64_t pid);

/* Bytes; 0 for fewer, and for those that are not known. */
static inline int64_t tide_clamp_zero(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

/* RSS of a member, or TIDE_UNKNOWN. */
int64_t tide_member_rss(const struct tide_member *member);

#endif
