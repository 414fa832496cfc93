/*
 * record.h - what a recording holds: the rows that go into its writer and come out of its reader.
 *
 * A recording is a SQLite database in WAL mode (docs/RECORDING.md has the tables). Times are nanoseconds
 * since the recording began, on CLOCK_MONOTONIC; bytes are bytes; TIDE_UNKNOWN means "not known" and is NULL
 * in the database. Processes are numbered from 1 within a recording (`id`): a PID that the kernel uses twice
 * has two rows.
 */
#ifndef TIDE_RECORD_H
#define TIDE_RECORD_H

#include "base/kinds.h"

#include <stdbool.h>
#include <stdint.h>

#define TIDE_UNKNOWN ((int64_t)-1)

/* PRAGMA user_version. schema.c says since which version a column exists; in older recordings it is NULL. */
enum { TIDE_RECORD_VERSION = 9 };

/* The tables, in their order in the file. A row of each is one of the structs below (schema.c). */
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

/* Keys of the meta table that the writer of a recording must or may set. */
#define TIDE_META_TOOL     "tool"           /* "tidemark 0.1.0" */
#define TIDE_META_COMMAND  "command"        /* the command line that was run, or "attach PID" */
#define TIDE_META_HOST     "host"           /* host name */
#define TIDE_META_STARTED  "started_wall_s" /* seconds since 1970 at t = 0 */
#define TIDE_META_CLOCK    "clock_base_ns"  /* CLOCK_MONOTONIC at t = 0 */
#define TIDE_META_INTERVAL "interval_ns"    /* time between looks, as asked for */
#define TIDE_META_MEMTOTAL "host_memory_bytes"
#define TIDE_META_ENDED    "ended_ns"    /* set by a clean end; absent: still running, or killed */
#define TIDE_META_EXIT     "exit_status" /* of the command: 0..255; 128 + signal */
#define TIDE_META_SIGNAL   "exit_signal" /* the signal that killed the command; 0: none */
#define TIDE_META_KERNEL_PEAK                                                                                \
    "kernel_peak_rss_bytes"                 /* largest RSS of any one waited-for process, from the kernel */
#define TIDE_META_ITEMS    "items"          /* --items */
#define TIDE_META_PER_STEP "items_per_step" /* --per-step */
#define TIDE_META_LIMIT    "limit_bytes"    /* --limit */

/* A fact about the run. */
struct tide_meta {
    const char *key;
    struct tide_meta_value {
        const char *text; /* NULL: the value is number */
        int64_t number;
    } value;
};

/* One program that a process ran, from when it was first seen to when it was last seen. Strings are borrowed
 * and unescaped. */
struct tide_process {
    int64_t id;
    int64_t pid;
    int64_t parent;      /* id of the parent in this recording; 0: none (a root of the tree) */
    int64_t start_ticks; /* field 22 of /proc/PID/stat: with pid, tells apart reused PIDs */
    const char *name;    /* comm */
    const char *command; /* arguments joined by spaces; empty for a zombie or kernel thread */
    const char *role;    /* processes with the same role share a row on screen ("20 x compile_worker") */
    int64_t began_ns;
    int64_t ended_ns; /* TIDE_UNKNOWN while it runs */
    int64_t peak_rss_bytes;
    int64_t rank; /* in a job of several processes, from its environment; TIDE_UNKNOWN: not in there */
};

/* One look at the whole tree. */
struct tide_tick {
    int64_t id; /* 1, 2, ...; set by the writer */
    int64_t t_ns;
    int64_t processes;
    int64_t rss_bytes;       /* sum over processes: a shared page counts once per process */
    int64_t counted_bytes;   /* shared pages count once where PSS is known; elsewhere RSS, without the pages
                                that a forked process shared with its parent when it was first seen. Includes
                                swap */
    int64_t pss_known_bytes; /* the part of rss_bytes whose PSS is known */
    int64_t cgroup_bytes;    /* memory.current of the tree's cgroup */
    int64_t cgroup_peak_bytes;
    int64_t pressure_ppm;    /* share of time that some task stalled on memory: 10 s average (PSI some avg10),
                                parts per million */
    int64_t available_bytes; /* MemAvailable of the host */
    int64_t share_ppm; /* processors per thread that wants to run, at most 1: the share of a processor that a
                          computing thread gets, parts per million */
};

/* Cheap counters of one process at one tick. Written only if one of them changed since the process's last
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
    int64_t asked_bytes;  /* VmData: private writable memory, touched or not */
    int64_t mapped_bytes; /* VmSize: all addresses that are mapped */
};

/* Expensive counters (smaps_rollup), read on a time budget. */
struct tide_smaps {
    int64_t tick;
    int64_t process;
    int64_t pss_bytes;
    int64_t uss_bytes; /* Private_Clean + Private_Dirty + Private_Hugetlb */
    int64_t swap_pss_bytes;
    int64_t cost_ns;          /* time the read took */
    int64_t pss_shmem_bytes;  /* of pss_bytes: shared memory, each page divided by its number of mappings */
    int64_t unreserved_bytes; /* RSS of large private mappings without a memory reservation (MAP_NORESERVE) */
};

enum tide_mark_source {
    TIDE_SOURCE_PROGRAM = 1, /* the program said it, through the channel */
    TIDE_SOURCE_OUTPUT,      /* read from what it printed */
    TIDE_SOURCE_TRACKER,     /* the tracker saw it: "oom_kill", ... */
};

/* The tracker's own gauge: shared memory that exists whether or not a process maps it. */
#define TIDE_GAUGE_SHARED "shared memory (/dev/shm, memfd)"

/* Prefixes of gauge names that come from a census of the program's tensors: bytes of a holder that grows. */
#define TIDE_GAUGE_HELD        "held by "
#define TIDE_GAUGE_HELD_ON_GPU "held on the GPU by "

struct tide_mark {
    int64_t t_ns;
    int64_t process; /* id; 0: not known which */
    enum tide_mark_kind kind;
    enum tide_mark_source source;
    int64_t number;
    const char *name; /* "" where there is none; borrowed, unescaped */
};

/* GPU memory: of one process on one device, or of the device as a whole. */
struct tide_gpu_sample {
    int64_t tick;
    int64_t device;
    int64_t process; /* id; 0: the whole device, all users; TIDE_UNKNOWN: processes that could not be
                        identified */
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

/* The place of an address of the program in its source, as far as known. Strings are borrowed, unescaped, ""
 * if unknown. */
struct tide_frame {
    int64_t id; /* 1, 2, ...; set by the writer */
    const char *function;
    const char *file;
    int64_t line;       /* TIDE_UNKNOWN when not known */
    const char *module; /* the executable or library; "" for a Python frame */
    int64_t offset;     /* of the call within the module, in the module's own addresses (as addr2line takes
                           them); or TIDE_UNKNOWN */
    bool python;
    const char *source; /* the source line as it was at recording time; "" if it could not be read */
    bool inlined;       /* into the next frame of the stack, which has the same offset */
};

/* One frame of a call stack. The rows of a stack come together, the innermost frame (depth 0, the allocating
 * function) first. */
struct tide_stack_row {
    int64_t id; /* of the stack: 1, 2, ... */
    int64_t depth;
    int64_t frame;
};

/* Tensors are sampled at this many times the interval of other blocks, which is the one in heap_state. */
enum { TIDE_SITE_TENSOR_INTERVALS = 32 };

/* A call stack of one process that allocates. */
struct tide_site {
    int64_t id; /* 1, 2, ...; set by the writer */
    int64_t process;
    enum tide_site_kind kind;
    int64_t stack; /* 0: all sites of this process and kind that are too small for a row of their own */
};

/* What a site holds at a tick, scaled up from its samples. Written only if it changed since the site's last
 * row. When more sites changed than the recording has room for, the largest changes are written. */
struct tide_site_sample {
    int64_t tick;
    int64_t site;
    int64_t live_bytes;
    int64_t live_blocks;
    int64_t total_bytes; /* allocated so far, freed or not */
    int64_t total_blocks;
};

/* All memory that a process holds at a tick, and what its allocator keeps free; TIDE_UNKNOWN if the allocator
 * cannot be asked. Written only if it changed since the process's last row. */
struct tide_heap_sample {
    int64_t tick;
    int64_t process;
    int64_t live_bytes; /* of host memory: all sites, also those too small for a row */
    int64_t live_blocks;
    int64_t system_bytes; /* what malloc got from the system for its arenas */
    int64_t mapped_bytes; /* what malloc mapped for single large blocks, outside the arenas */
    int64_t free_bytes;   /* of the arenas: free, but not returned to the system */
    int64_t free_blocks;  /* number of pieces that free_bytes is in */
    int64_t top_bytes;    /* of free_bytes: the one piece at the end of the heap */
};

/* The states that readers look for. Any other state is a sentence that says why no allocations are seen. */
#define TIDE_HEAP_STATE_STARTING "starting"
#define TIDE_HEAP_STATE_ON       "on" /* or "on; " and a sentence that says what is not seen */
#define TIDE_HEAP_STATE_GONE     "the process has become another program"

/* How much of a process's allocations is seen, from t_ns on. */
struct tide_heap_status {
    int64_t process;
    int64_t t_ns;
    const char *state;
    int64_t interval_bytes; /* mean bytes between samples of small allocations */
    int64_t sampled;        /* allocations */
    int64_t dropped_sites;  /* stacks that found no room */
    int64_t dropped_blocks; /* allocations left out: their free could not be tracked */
    int64_t truncated_stacks;
    int64_t unwinds;
    int64_t unwind_ns; /* total time spent unwinding */
};

/* Prefix of the note that --heap was asked for but found no program whose allocations it could see. */
#define TIDE_NOTE_UNSEEN "--heap saw no allocations: "

/* Something that a reader of the recording should know: "disk full from here on", "412 marks lost". */
struct tide_note {
    int64_t t_ns;
    const char *text;
    int64_t kills; /* processes that the kernel killed for lack of memory, if the note is about that */
};

#endif
