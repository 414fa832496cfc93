/*
 * summary.h - a recording in few numbers: processes as a tree, phases, steps, gauges, peaks.
 *
 * Computed from a history into an arena. It borrows the history's strings and is valid as long as both are.
 * Strings are unescaped.
 */
#ifndef TIDE_SUMMARY_H
#define TIDE_SUMMARY_H

#include "assess/axis.h"
#include "assess/history.h"
#include "assess/phases.h"
#include "base/arena.h"

/* One row of the tree: a process, or several of one role below one parent. Bytes are RSS. For several,
 * `first`, `last`, `pss` and `uss` are sums over those that lived when their sum was largest. */
struct tide_summary_row {
    int64_t id; /* of the process, or of the first of several */
    int64_t pid;
    size_t members;
    int depth;
    const char *name;           /* of a process; role, for several */
    int64_t began_ns, ended_ns; /* ended: TIDE_UNKNOWN while one runs */
    int64_t lasted_ns;
    int64_t peak_bytes, first_bytes, last_bytes;
    int64_t pss_bytes, uss_bytes; /* last known */
};

/* All stretches of one name, in all processes. */
struct tide_summary_phase {
    const char *name;
    size_t count;      /* begun */
    size_t unfinished; /* of those, not ended */
    int64_t total_ns, longest_ns;
    int64_t peak_bytes; /* of the tree, counted once, in any of them; TIDE_UNKNOWN if no look fell into one */
    int64_t rise_bytes; /* largest peak minus the level at the beginning */
};

struct tide_summary_gauge {
    const char *name;
    size_t count;
    int64_t first, least, most, last;
};

/* For one kind of counting mark. */
struct tide_summary_count {
    size_t count;
    int64_t first, last;
    int64_t first_ns, last_ns;
};

struct tide_summary_peak {
    int64_t bytes; /* TIDE_UNKNOWN: there were no ticks */
    int64_t t_ns;
    int64_t processes;
    int64_t rss_bytes, pss_known_bytes; /* of the tree at that moment */
    int64_t step;                       /* TIDE_UNKNOWN: not known */
    const char *phase;                  /* innermost phase that ran, or NULL */
};

struct tide_summary {
    const struct tide_history *history;
    struct tide_axis axis;
    int64_t last_ns; /* end of the recording, or the last tick */
    struct tide_summary_row *rows;
    size_t row_count;
    struct tide_phases told; /* the single phases */
    struct tide_summary_phase *phases;
    size_t phase_count;
    struct tide_summary_gauge *gauges;
    size_t gauge_count;
    struct tide_summary_count steps, epochs, items;
    double steps_per_s;                    /* NAN: not known */
    struct tide_summary_peak rss, counted; /* of the tree */
    struct tide_summary_peak cgroup;
};

/* The result lives in the arena. */
int tide_summary_make(const struct tide_history *history, struct tide_arena *arena,
                      struct tide_summary *ret_summary, struct tide_err *err);

/* How the recording ended: "exit status 0", "killed by signal 9", "no clean end: still running, or killed".
 */
void tide_summary_ending(const struct tide_history *history, char *out, size_t size);

/* Returns the step at a time; TIDE_UNKNOWN if there is none. */
int64_t tide_summary_step(const struct tide_summary *summary, int64_t t_ns);

#endif
