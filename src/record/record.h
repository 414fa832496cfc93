/*
 * record.h - what a recording holds: the rows that its writer takes and its reader gives.
 *
 * A recording is a SQLite database in WAL mode (docs/RECORDING.md has the tables). Times are nanoseconds
 * since the recording began, on CLOCK_MONOTONIC; bytes are bytes; TIDE_UNKNOWN stands for "not known" and is
 * NULL in the database. Processes are numbered from 1 within a recording (`id`): a PID that the kernel uses
 * twice is two rows.
 */
#ifndef TIDE_RECORD_H
#define TIDE_RECORD_H

#include "base/kinds.h"

#include <stdbool.h>
#include <stdint.h>

#define TIDE_UNKNOWN ((int64_t)-1)

/* PRAGMA user_version. What each version added is in schema.c; an older one is read as a recording without
 * it. */
enum { TIDE_RECORD_VERSION = 9 };

/* The tables, in their order in the file. The rows of each are one of the structs below (schema.c). */
enum tide_schema {
    TIDE_SCHEMA_META,
    TIDE_SCHEMA_PROCESS,
    TIDE_SCHEMA_TICK,
    TIDE_SCHEMA_SAMPLE,
    TIDE_SCHEMA_SMAPS,
    TIDE_SCHEMA_MARK,
    TIDE_SCHEMA_GPU,
    TIDE_SCHEMA_GPU_DEVICE,
    TIDE_SCHEMA_LIMIT,
    TIDE_SCHEMA_NOTE,
    TIDE_SCHEMA_FRAME,
    TIDE_SCHEMA_STACK,
    TIDE_SCHEMA_SITE,
    TIDE_SCHEMA_SITE_SAMPLE,
    TIDE_SCHEMA_HEAP_STATE,
    TIDE_SCHEMA_HEAP_SAMPLE,
    TIDE_SCHEMA_TABLES
};

/* Names of the meta table that the writer of a recording must or may set. */
#define TIDE_META_TOOL     "tool"           /* "tidemark 0.1.0" */
#define TIDE_META_COMMAND  "command"        /* the command line that was run, or "attach PID" */
#define TIDE_META_HOST     "host"           /* host name */
#define TIDE_META_STARTED  "started_wall_s" /* seconds since 1970 at t = 0 */
#define TIDE_META_CLOCK    "clock_base_ns"  /* CLOCK_MONOTONIC at t = 0 */
#define TIDE_META_INTERVAL "interval_ns"    /* time between looks that was asked for */
#define TIDE_META_MEMTOTAL "host_memory_bytes"
#define TIDE_META_ENDED    "ended_ns"    /* set by a clean end; absent: still running, or killed */
#define TIDE_META_EXIT     "exit_status" /* of the command: 0..255, 128 + signal */
#define TIDE_META_SIGNAL   "exit_signal" /* that killed the command; 0: it ended by itself */
#define TIDE_META_KERNEL_PEAK                                                                                \
    "kernel_peak_rss_bytes"                 /* largest RSS of any one waited-for process, by the kernel */
#define TIDE_META_ITEMS    "items"          /* --items */
#define TIDE_META_PER_STEP "items_per_step" /* --per-step */
#define TIDE_META_LIMIT    "limit_bytes"    /* --limit */

/* A fact about the run. */
struct tide_meta {
    const char *key;
    struct tide_meta_value {
        const char *text; /* NULL: it is number */
        int64_t number;
    } value;
};

/* One process, from its first sight to its last. Strings are borrowed, as they are in the system: unescaped.
 */
struct tide_process {
    int64_t id;
    int64_t pid;
    int64_t parent;      /* id of the parent in this recording; 0: none (a root of the tree) */
    int64_t start_ticks; /* field 22 of /proc/PID/stat: with pid, tells apart reused PIDs */
    const char *name;    /* comm */
    const char *command; /* arguments joined by spaces; empty for a zombie or kernel thread */
    const char *role;    /* processes with the same role are shown as one row ("20 x compile_worker") */
    int64_t began_ns;
    int64_t ended_ns; /* TIDE_UNKNOWN while it runs */
    int64_t peak_rss_bytes;
    int64_t rank; /* in a job of several processes, as its environment says; TIDE_UNKNOWN: it does not */
};

/* One look at the whole tree. */
struct tide_tick {
    int64_t id; /* 1, 2, ...; set by the writer */
    int64_t t_ns;
    int64_t processes;
    int64_t rss_bytes;     /* sum over processes: a shared page counts once per process */
    int64_t counted_bytes; /* a shared page counts once, as far as PSS is known; else RSS, less what a forked
                              process had of its parent's when first seen. Swap included */
    int64_t pss_known_bytes; /* the part of rss_bytes whose PSS is known */
    int64_t cgroup_bytes;    /* memory.current of the tree's cgroup */
    int64_t cgroup_peak_bytes;
    int64_t pressure_ppm; /* share of time some task stalled on memory, 10 s average (PSI some avg10), parts
                             per million */
    int64_t available_bytes; /* MemAvailable of the host */
    int64_t share_ppm; /* of a processor, that a thread which computes gets: how many processors there are for
                          each thread that would run, at most 1, in parts per million */
};

/* Cheap counters of one process at one tick. Written only when one of them changed since the process's last
 * row. */
struct tide_sample {
    int64_t tick;
    int64_t process;
    int64_t anon_bytes;  /* RssAnon */
    int64_t file_bytes;  /* RssFile: mapped files, reclaimable */
    int64_t shmem_bytes; /* RssShmem */
    int64_t swap_bytes;  /* VmSwap */
    int64_t huge_bytes;  /* HugetlbPages: not part of RSS */
    int64_t threads;
    int64_t asked_bytes;  /* VmData: private memory that may be written, touched or not */
    int64_t mapped_bytes; /* VmSize: addresses that are taken, by whatever */
};

/* Expensive counters (smaps_rollup), read on a time budget. */
struct tide_smaps {
    int64_t tick;
    int64_t process;
    int64_t pss_bytes;
    int64_t uss_bytes; /* Private_Clean + Private_Dirty + Private_Hugetlb */
    int64_t swap_pss_bytes;
    int64_t cost_ns;          /* what the read cost */
    int64_t pss_shmem_bytes;  /* of pss_bytes: shared memory, each page divided by how often it is mapped */
    int64_t unreserved_bytes; /* there of large mappings that no memory was reserved for (MAP_NORESERVE) */
};

enum tide_mark_source {
    TIDE_SOURCE_PROGRAM = 1, /* the program said it, through the channel */
    TIDE_SOURCE_OUTPUT,      /* read from what it printed */
    TIDE_SOURCE_TRACKER,     /* the tracker saw it: "oom_kill", ... */
};

/* The tracker's own gauge: shared memory that lives whether or not a process maps it. */
#define TIDE_GAUGE_SHARED "shared memory (/dev/shm, memfd)"

/* Names of gauges that a census of the program's tensors leaves begin so: bytes of a holder that grows. */
#define TIDE_GAUGE_HELD        "held by "
#define TIDE_GAUGE_HELD_ON_GPU "held on the GPU by "

struct tide_mark {
    int64_t t_ns;
    int64_t process; /* id, or 0: not known which */
    enum tide_mark_kind kind;
    enum tide_mark_source source;
    int64_t number;
    const char *name; /* "" where there is none; borrowed, unescaped */
};

/* GPU memory: of one process on one device, or of the device as a whole. */
struct tide_gpu_sample {
    int64_t tick;
    int64_t device;
    int64_t process; /* id; 0: the whole device, whoever uses it; TIDE_UNKNOWN: a process that could not be
                        told */
    int64_t bytes;
};

struct tide_gpu_device {
    int64_t device;
    const char *name;
    const char *uuid;
    int64_t total_bytes;
};

/* A bound that applies from t_ns on. The forecast uses the lowest. */
struct tide_limit {
    int64_t t_ns;
    const char *name; /* "--limit", "cgroup /a/b memory.max", "host memory", "gpu 0" */
    int64_t bytes;    /* TIDE_UNKNOWN: no longer applies */
};

/* Where an address of the program is in its source, as far as that could be told. Strings are borrowed,
 * unescaped, "" when unknown. */
struct tide_frame {
    int64_t id; /* 1, 2, ...; set by the writer */
    const char *function;
    const char *file;
    int64_t line;       /* TIDE_UNKNOWN when not known */
    const char *module; /* the executable or library; "" for a Python frame */
    int64_t offset;     /* within the module, in its own addresses (as addr2line wants them), of the call; or
                           unknown */
    bool python;
    const char *source; /* the line itself, as it was when it was recorded; "" when it could not be read */
    bool inlined;       /* into the next frame of the stack, which has the same offset */
};

/* One frame of a call stack. A stack's rows come together, the innermost frame (depth 0, who allocated)
 * first.
 */
struct tide_stack_row {
    int64_t id; /* of the stack: 1, 2, ... */
    int64_t depth;
    int64_t frame;
};

/* Tensors are sampled with this many times the interval of other blocks, which is what heap_state has. */
enum { TIDE_SITE_TENSOR_INTERVALS = 32 };

/* A call stack of one process that allocates. */
struct tide_site {
    int64_t id; /* 1, 2, ...; set by the writer */
    int64_t process;
    enum tide_site_kind kind;
    int64_t stack; /* 0: all sites of this process and kind that are too small for a row of their own */
};

/* What a site holds at a tick, scaled up from what was sampled. Written only when it changed since the site's
 * last row, the largest changes first when there are more than the recording has room for. */
struct tide_site_sample {
    int64_t tick;
    int64_t site;
    int64_t live_bytes;
    int64_t live_blocks;
    int64_t total_bytes; /* allocated so far, freed or not */
    int64_t total_blocks;
};

/* All that a process holds at a tick, and what its allocator keeps beside that; TIDE_UNKNOWN where the
 * allocator cannot be asked. Written only when it changed since the process's last row. */
struct tide_heap_sample {
    int64_t tick;
    int64_t process;
    int64_t live_bytes; /* of host memory: every site, however small */
    int64_t live_blocks;
    int64_t system_bytes; /* what malloc has from the system for its arenas */
    int64_t mapped_bytes; /* what it has mapped for single large blocks, beside the arenas */
    int64_t free_bytes;   /* of the arenas: free, and kept */
    int64_t free_blocks;  /* in so many pieces */
    int64_t top_bytes;    /* of free_bytes: at the end of the heap, in one piece */
};

/* The states that readers look for. Any other is a sentence that says why nothing is seen. */
#define TIDE_HEAP_STATE_STARTING "starting"
#define TIDE_HEAP_STATE_ON       "on" /* or "on; " and what is not seen */
#define TIDE_HEAP_STATE_GONE     "the process has become another program"

/* How far the allocations of a process are seen, from t_ns on. */
struct tide_heap_status {
    int64_t process;
    int64_t t_ns;
    const char *state;
    int64_t interval_bytes; /* mean bytes between samples of small allocations */
    int64_t sampled;        /* allocations */
    int64_t dropped_sites;  /* stacks for which there was no room */
    int64_t dropped_blocks; /* allocations that could not be followed to their end */
    int64_t truncated_stacks;
    int64_t unwinds;
    int64_t unwind_ns; /* what all unwinding took */
};

/* How the note begins that --heap was asked for and saw into no program. */
#define TIDE_NOTE_UNSEEN "--heap saw no allocations: "

/* Something a reader of the recording should know: "disk full from here on", "412 marks lost". */
struct tide_note {
    int64_t t_ns;
    const char *text;
    int64_t kills; /* processes that the kernel killed for lack of memory, of which it tells */
};

#endif
