/*
 * assessment.h - the verdict on a whole recording: which series are judged, and which of them is the worst.
 *
 * It makes series from a history: one per process (private bytes), per role with several members (their sum),
 * for the tree (counted bytes), per process and device for GPUs, and per gauge. A forked process also gets
 * one of the pages that are its own (USS), where copy-on-write growth shows. The axis is steps where there
 * are any, else seconds. It judges each series, picks the worst, and forecasts when the lowest limit is
 * reached. Text and JSON for people and for CI come from here, for recordings and for plain series alike, so
 * that `run`, `attach`, `watch` and `judge` say the same thing.
 *
 * Where the heap hook knew what a process holds, memory that rises while that does not is called retention.
 */
#ifndef TIDE_ASSESSMENT_H
#define TIDE_ASSESSMENT_H

#include "assess/axis.h"
#include "assess/death.h"
#include "assess/history.h"
#include "assess/phases.h"
#include "base/err.h"
#include "judge/judge.h"
#include "judge/retention.h"
#include "record/series.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum tide_subject {
    TIDE_SUBJECT_PROCESS,
    TIDE_SUBJECT_ROLE,
    TIDE_SUBJECT_TREE,
    TIDE_SUBJECT_GPU,
    TIDE_SUBJECT_GAUGE,
    TIDE_SUBJECT_COLUMN, /* of a plain series */
};

/* What an allocator keeps free, and what malloc_trim would give back of it. NAN: it cannot be asked. */
struct tide_kept {
    double free_bytes, pieces;
    double top_bytes;           /* of free_bytes: at the end of the heap, in one piece */
    double trim_low, trim_high; /* what comes back at least and at most: whole pages, all pieces */
    double threads;             /* of the process; each may have an arena of its own */
};

enum tide_kept_where { TIDE_KEPT_UNKNOWN, TIDE_KEPT_AT_THE_END, TIDE_KEPT_IN_PAGES, TIDE_KEPT_IN_HOLES };

/* A limit that holds for each process by itself, on more than its memory. */
enum tide_rlimit { TIDE_RLIMIT_NONE, TIDE_RLIMIT_AS, TIDE_RLIMIT_DATA, TIDE_RLIMITS };

/* Peaks that rise from epoch to epoch over a floor that does not. */
struct tide_crest {
    size_t epochs;                  /* how many were compared; 0: peaks do not rise */
    double per_epoch, low, high;    /* bytes, with a 95 % interval */
    double first_bytes, last_bytes; /* of the fitted line */
    char phase[64];                 /* escaped name of the phase that holds the last peak; "" if none */
};

struct tide_judged {
    enum tide_subject subject;
    int64_t process;   /* id, for PROCESS and GPU; else 0 */
    int64_t pid;       /* of that process; 0 without one */
    int64_t device;    /* for GPU; else TIDE_UNKNOWN */
    int32_t gauge;     /* for GAUGE: which of the history's names */
    bool shared;       /* for GAUGE: shared memory that the tracker saw, not a gauge of the program */
    int64_t member;    /* for ROLE: id of one of its processes; else 0 */
    const char *role;  /* of its process or processes; lives in the assessment, unescaped; NULL: none */
    size_t members;    /* for ROLE and TREE: the most processes at one time */
    size_t each;       /* for ROLE: so many of its processes leak, each while it lives; the verdict is that on
                          the one with the middle rate */
    bool starting;     /* undecided, because what grew may be the program's start */
    bool unexplained;  /* undecided, because a sum rose but no process in it surely did */
    double room_bytes; /* undecided, because it rose without asking for more: what it had asked for but not
                          touched yet; NAN otherwise */
    bool passing;      /* PROCESS: lives briefly, and others of its role came before or after; ROLE: all do */
    bool python;       /* PROCESS: a Python interpreter */
    bool own_pages;    /* the series is USS: pages that are the process's own */
    bool inside;       /* what the program holds leaks, while the process's memory is level */
    char name[128];    /* escaped: "python[141495] (child of uv[141489])", "20 x compile_worker", "the process
                          tree" */
    bool x_is_steps;
    double seconds_per_step; /* 1 without steps; NAN: not known */
    double limit_bytes;      /* what this series may reach before a limit is hit; NAN: none known */
    enum tide_rlimit rlimit; /* the limit is the process's own; NONE: the tree's */
    double rlimit_bytes;     /* of address space, or of data */
    bool limit_by_all;       /* the forecast is the tree's: more grows than this series */
    bool limit_by_one;       /* the forecast is that of a process in this sum */
    char phase[64];          /* escaped name of the phase that holds most spikes; "" if none */
    char jump_mark[80];      /* escaped: what happened at the jump ("start of epoch 3"); "" if nothing */
    struct tide_crest crest;
    struct tide_verdict verdict;
    bool live_known;                 /* what the program holds is known, and memory rose: see `retention` */
    struct tide_retention retention; /* set if live_known */
    bool may_go_on; /* memory has stopped rising; not known yet whether what the program holds has, too */
    bool filling;   /* a plateau that is still to come: the process touches memory that it holds */
    struct tide_kept kept;
    const double *x, *bytes; /* the series that was judged; lives in the assessment */
    size_t count;
};

struct tide_assessment {
    struct tide_judged *judged; /* the worst first */
    size_t count;               /* at least 1 */
    size_t beyond;              /* series beyond what can be judged: the smallest processes, ... */
    double limit_bytes;         /* lowest that applies to the tree; NAN: none known */
    char limit_name[96];        /* escaped */
    double items, items_per_step;
    double pss_known; /* share of the tree's RSS whose PSS is known at the end; NAN for plain series */
    double steps;     /* seen; NAN without steps */
    bool has_ended;   /* the run or its recording has ended: there is no forecast, and more steps will not
                         settle anything */
    double broke_off; /* seconds after the start, if the recording breaks off; NAN: it does not */
    struct tide_death death;
    struct tide_phases phases;    /* of the history; none for plain series */
    double gap_seconds, gap_from; /* nothing was recorded for so long in all, first from here on; 0: no gap */
    const struct tide_axis *axis; /* lives in the assessment; NULL for plain series */
    char others[256];   /* one line about the processes that are not the worst; "" when there are none */
    char evidence[256]; /* one line about the worst from the program's own gauges; "" if they say nothing */
    struct tide_assessment_private *private;
};

struct tide_assess_options {
    double items, items_per_step; /* NAN: what the recording says, else unknown */
    double limit_bytes;           /* NAN: what the recording says */
    const atomic_bool *stop;      /* once true, judging a history fails within milliseconds; NULL: never */
};

/* Caller frees the result with tide_assessment_free. options NULL: as the recording says. Fails if there is
 * nothing to judge. */
int tide_assess_history(const struct tide_history *history, const struct tide_assess_options *options,
                        struct tide_assessment **ret_assessment, struct tide_err *err);
int tide_assess_series(const struct tide_series_set *set, const struct tide_assess_options *options,
                       struct tide_assessment **ret_assessment, struct tide_err *err);
void tide_assessment_free(struct tide_assessment *assessment);

/* A recording opened for an answer: its history and the verdict on it. */
struct tide_answer {
    struct tide_history *history;
    struct tide_assessment *assessment;
};

/* On success the caller releases it with tide_answer_release. */
int tide_answer_init(struct tide_answer *answer, const char *path, const struct tide_assess_options *options,
                     struct tide_err *err);
void tide_answer_release(struct tide_answer *answer);

/* Share of a process's bytes that counts as its own: memory inherited from a fork counts once, not once per
 * process. NAN: not known. */
double tide_assess_own_share(const struct tide_history_process *process);

/* Returns where most of the free memory is, which decides what can be done about it. */
enum tide_kept_where tide_kept_where(const struct tide_kept *kept);

/* A value that holds from its time until the next one. */
struct tide_level {
    int64_t t_ns;
    double bytes;
};

/*
 * Judges one more series on the assessment's own axis: levels from began_ns to ended_ns. Returns 1 if judged:
 * *ret_judged has the verdict and the series, which lives in the assessment. 0: seen too rarely to judge; -1:
 * error. The history that was assessed must still exist.
 */
int tide_assess_levels(struct tide_assessment *assessment, const struct tide_level *levels, size_t count,
                       int64_t began_ns, int64_t ended_ns, struct tide_judged *ret_judged,
                       struct tide_err *err);

/* Returns the time at which a step (or second) began; TIDE_UNKNOWN if it is outside the recording. */
int64_t tide_assess_time_of(const struct tide_assessment *assessment, double x);

/* True if a series is only evidence and never the answer: gauges of the program, and what a GPU has in use
 * for everyone, which may be other people's. */
bool tide_judged_is_evidence(const struct tide_judged *judged);

/* 0: nothing found; 1: leak, growing retention, rising peaks, or killed for lack of memory; 3: undecided. */
int tide_assessment_exit_code(const struct tide_assessment *assessment);

#endif
