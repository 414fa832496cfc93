/*
 * proc_parse.h - turns the text of /proc and cgroup files into numbers. Pure: no I/O, no allocation.
 *
 * The text ends with a NUL. It is the kernel's, but others choose the names in it and a file can be cut
 * short, so every parser accepts any bytes: what is missing, malformed or too large is TIDE_UNKNOWN. A parser
 * that returns int returns -1, and leaves *ret as it was, if the text is not of that kind at all.
 */
#ifndef TIDE_PROC_PARSE_H
#define TIDE_PROC_PARSE_H

#include "channel/birth.h"
#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_PROC_NAMESPACES = 8, TIDE_PROC_CGROUP_PATH = 1024 };

/* /proc/PID/status. A zombie and a kernel thread have no memory: their byte counts are TIDE_UNKNOWN. On
 * kernels before 4.5, which do not split VmRSS, anon_bytes is all of it. */
struct tide_proc_status {
    char name[TIDE_STAT_NAME]; /* without the kernel's escapes (\n, \\) */
    char state;
    int64_t parent_pid;
    int64_t peak_bytes;                           /* VmHWM */
    struct tide_sample counters;                  /* without tick and process */
    int64_t namespace_pids[TIDE_PROC_NAMESPACES]; /* NSpid: our namespace first, then the nested ones */
    int namespace_count;
};

int tide_proc_parse_status(const char *text, struct tide_proc_status *ret_status);

/* /proc/PID/smaps_rollup. The rest of the row is left alone. */
struct tide_proc_rollup {
    struct tide_smaps row; /* pss_bytes, pss_shmem_bytes (TIDE_UNKNOWN before Linux 5.4), uss_bytes and
                              swap_pss_bytes */
    int64_t anon_bytes;    /* of RSS */
};

int tide_proc_parse_rollup(const char *text, struct tide_proc_rollup *ret_rollup);

/* /proc/PID/smaps, line by line; starts as zeros. Counts mappings that are private, writable, at least
 * TIDE_PROC_LARGE bytes, and without a memory reservation ("nr"): addresses that an allocator reserved far
 * ahead, of which no program means to use all. */
enum { TIDE_PROC_LARGE = 256 << 20 };
struct tide_proc_smaps {
    int64_t unreserved_bytes; /* RSS of those so far */
    int64_t rss_bytes;        /* of the mapping that the current lines describe */
    bool is_large;            /* and private and writable */
};

void tide_proc_parse_smaps_line(struct tide_proc_smaps *smaps, const char *line);

/* /proc/PID/cgroup: the path of the memory controller (version 1), and the path in the unified hierarchy
 * (version 2). Empty if there is none. The text is cut up. */
struct tide_proc_cgroup {
    char memory_path[TIDE_PROC_CGROUP_PATH];
    char unified_path[TIDE_PROC_CGROUP_PATH];
};

int tide_proc_parse_cgroup(char *text, struct tide_proc_cgroup *ret_cgroup);

/* /proc/meminfo. */
struct tide_proc_meminfo {
    int64_t total_bytes;
    int64_t available_bytes; /* MemAvailable; before Linux 3.14, free and cached pages */
};

int tide_proc_parse_meminfo(const char *text, struct tide_proc_meminfo *ret_meminfo);

/* /proc/PID/limits: soft limits, TIDE_UNKNOWN when unlimited. */
struct tide_proc_limits {
    int64_t address_space_bytes;
    int64_t data_bytes;
};

int tide_proc_parse_limits(const char *text, struct tide_proc_limits *ret_limits);

/* The number after `key` in lines of "key number" (memory.events, memory.oom_control); TIDE_UNKNOWN if there
 * is none. */
int64_t tide_proc_parse_counter(const char *text, const char *key);

/* The number of bytes in a file such as memory.max or memory.limit_in_bytes. TIDE_UNKNOWN for "max" and for
 * the huge numbers that mean "no limit" in version 1. */
int64_t tide_proc_parse_bytes(const char *text);

/* Pressure (PSI): the "some" line's avg10, in parts per million. */
int64_t tide_proc_parse_pressure(const char *text);

#endif
