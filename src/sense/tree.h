/*
 * tree.h - the members of the process tree and their cheap counters.
 *
 * tide_tree_init -> tide_tree_add_root()... -> repeat { tide_tree_scan(), tide_tree_read() } ->
 * tide_tree_release().
 *
 * A scan lists /proc and reads stat only for new PIDs. If the inode of a PID's directory changed, its start
 * time decides whether it is another process. Outsiders (processes not in the tree) are checked again now and
 * then, in case a file system reuses inodes. A process whose parent is not known yet is checked again in the
 * next scan. This process itself is never a member.
 *
 * /proc is not listed if no PID was given out since the last listing, which /proc/loadavg tells, and no
 * question is open. On a machine that starts no processes a scan is one small read.
 *
 * A member that ended stays in the table, with `ended` set, until its PID is gone from /proc (it may be a
 * zombie) and one more scan has passed, so that its last row can be written. Then tide_tree_scan frees it.
 * A process that becomes another program by exec is another member, with the same PID and start time; the one
 * before it has ended and is gone.
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
    TIDE_TREE_MEMBERS = 65536, /* at once; more are noted but not followed */
    TIDE_TREE_HIDDEN = 6,
    TIDE_TREE_COMMAND = 4096, /* bytes of a command line that are kept */
};

/* PSS of a member; belongs to smaps.c. */
struct tide_member_smaps {
    struct tide_smaps row; /* without tick and process. pss_bytes: TIDE_UNKNOWN until the first read;
                              unreserved_bytes: TIDE_UNKNOWN if little memory is untouched */
    int64_t asked_then;    /* asked_bytes when unreserved_bytes was read */
    int64_t read_ns;       /* when the row was read */
    int64_t anon_then;     /* by the same read */
    int64_t swap_then;     /* its counters at that time */
    int64_t rss_then;
    double ns_per_byte; /* cost of a read; 0 until the first */
    int64_t shared_ns;  /* when its sharing with children last changed: one was forked or ended */
    bool end_seen;      /* its end was counted for its parent */
    bool refused;       /* may not be read */
    bool fresh;         /* read in this look: a row is due */
};

/* GPUs that a member holds open; belongs to gpu.c. */
struct tide_member_gpu {
    uint64_t devices;   /* bit n: /dev/nvidiaN */
    int64_t checked_ns; /* TIDE_UNKNOWN: never */
    int64_t driver_pid; /* its PID in NVML; TIDE_UNKNOWN until identified */
};

struct tide_member {
    int64_t pid;
    uint64_t start_ticks;
    int64_t parent_pid;
    int64_t id;                   /* in the recording; 0 until written */
    int64_t earlier_id;           /* of the program that this process was before its last exec; 0: none */
    int64_t parent_id;            /* of the parent in the recording; 0: none */
    int64_t parent_id_of;         /* the parent's PID when parent_id was found */
    int64_t began_ns;             /* first seen */
    uint64_t stack_start;         /* of its program, the same after a fork; 0: may not be known */
    uint64_t earlier_stack_start; /* of the program before the last exec; 0: none */
    int64_t ended_ns;             /* valid if ended */
    bool ended;
    bool gone;      /* its PID is no longer in /proc */
    bool row_stale; /* its row must be written again */
    bool noted;     /* a note that it cannot be read was written */
    int unreadable; /* errno if its counters could not be read; else 0 */

    struct tide_proc_status now; /* the last status; bytes are TIDE_UNKNOWN if it could not be read */
    int64_t hook_anon_bytes;     /* the hook's memory, subtracted from everything that is read */
    int64_t hook_shmem_bytes;
    int64_t first_rss_bytes; /* RSS when first seen; TIDE_UNKNOWN before */
    bool forked;             /* runs the same as its parent, so it shares what it had when first seen */
    int64_t peak_bytes;      /* highest ever reported, or TIDE_UNKNOWN */
    int64_t high_water;      /* the kernel's, with the hook's memory: it falls by an exec */
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
    int status_fd;  /* -1: opened for each read */
};

struct tide_tree {
    DIR *proc;
    int proc_fd; /* of proc; borrowed by all who read files there */
    bool adopt_orphans;
    int64_t self_pid;
    int64_t hidden_pids[TIDE_TREE_HIDDEN]; /* never members; 0: none */
    struct tide_member **members;          /* in the order in which they were first seen */
    size_t member_count, member_capacity;
    struct tide_map by_pid;    /* PID -> struct tide_member *, those not gone */
    struct tide_map outsiders; /* pid -> inode and scan, packed */
    uint64_t scans;
    int loadavg_fd;                       /* -1: not there, or not reliable */
    int64_t newest_pid;                   /* last PID given out before the last listing; 0: not known */
    int64_t runnable;                     /* runnable threads of the host, without ours; or TIDE_UNKNOWN */
    unsigned skipped;                     /* scans without a listing, in a row */
    bool unsettled;                       /* the last listing left a question open */
    struct tide_descriptors *descriptors; /* for status files; its own unless the caller shares another */
    struct tide_descriptors own_descriptors;
    bool overflowed; /* there were more members than are followed */
    struct tide_tree_candidate *candidates;
    size_t candidate_count, candidate_capacity;
    char *text; /* scratch for file contents */
};

/* On failure nothing is left to release. */
int tide_tree_init(struct tide_tree *tree, const char *proc_path, bool adopt_orphans, struct tide_err *err);
void tide_tree_release(struct tide_tree *tree);

/* Adds a process as a member whatever its parent. Fails if there is no such process. */
int tide_tree_add_root(struct tide_tree *tree, int64_t pid, int64_t now_ns, struct tide_err *err);

/* Finds new members and those that are gone. If memory runs out, some processes stay unseen until a later
 * scan. */
int tide_tree_scan(struct tide_tree *tree, int64_t now_ns, struct tide_err *err);

/* Reads the counters of all members that have not ended. */
void tide_tree_read(struct tide_tree *tree, int64_t now_ns);

/* The member that has this PID now (which may be a zombie, with `ended` set), or NULL. Borrowed. */
struct tide_member *tide_tree_find(const struct tide_tree *tree, int64_t pid);

/* True if the last scan saw a process with this PID, member or not. */
bool tide_tree_saw(const struct tide_tree *tree, int64_t pid);

/* True if it has this PID, here or in a nested namespace. */
bool tide_member_is_called(const struct tide_member *member, int64_t pid);

/* Returns bytes, or 0 if they are negative or TIDE_UNKNOWN. */
static inline int64_t tide_clamp_zero(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

/* What is left when some are taken off; TIDE_UNKNOWN stays. */
static inline int64_t tide_bytes_less(int64_t bytes, int64_t taken)
{
    return bytes < 0 ? bytes : tide_clamp_zero(bytes - taken);
}

/* RSS of a member, or TIDE_UNKNOWN. */
int64_t tide_member_rss(const struct tide_member *member);

#endif
