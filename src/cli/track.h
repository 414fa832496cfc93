/*
 * track.h - records a process tree from its start (or from now) to its end: the work of `run`, `attach` and
 * of `watch` with a command.
 *
 * tide_track() does all of it and returns when the tree has ended or the user stops it. It starts the
 * command, passes its terminal, output and signals through, looks at the tree every interval, takes marks
 * from the channel and steps from the output, writes the recording, and draws the status line. It prints on
 * stderr only what cannot wait. Call it before the process has other threads: it changes the signal mask and
 * becomes a child subreaper. A caller that has a screen of its own therefore runs it in a forked child
 * (silent, with a log file for the command's output) and reads the growing recording.
 *
 * The time between looks is at least 50 times what a look costs, so the tracker stays cheap however large the
 * tree is.
 */
#ifndef TIDE_TRACK_H
#define TIDE_TRACK_H

#include "base/err.h"
#include "base/option.h"
#include "base/units.h"
#include "record/record.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct tide_track_config {
    char **command; /* NULL-terminated; NULL: the tree of `pid`, which is already running */
    int64_t pid;
    const char *path; /* of the recording; NULL: see recname.h */
    int64_t interval_ns;
    int64_t limit_bytes;           /* --limit, or TIDE_UNKNOWN */
    int64_t items, items_per_step; /* or TIDE_UNKNOWN */
    const char *step_regex;        /* or NULL */
    bool ignore_output;            /* do not look for steps in the output */
    int64_t heap_interval_bytes;   /* --heap: mean bytes between samples of small allocations; 0: no hook */
    bool python_objects;           /* with --heap: record Python's small objects too, one by one */
    bool no_census;                /* with --heap: do not ask a PyTorch program who holds its tensors */
    bool no_status;                /* no status line on a terminal */
    bool quiet;                    /* the report is only the sentence of the verdict */
    bool silent;                   /* print nothing on stderr; errors are in the outcome */
    const char *log_path; /* the command's output goes to this file, its input is empty, and it gets a session
                             of its own; NULL: passed through */
};

struct tide_track_outcome {
    char path[PATH_MAX];
    int exit_code; /* of the command: 0..255, or 128 + signal; 0 for attach; on failure, what to exit with */
    int64_t kernel_peak_bytes;
    struct tide_err
        trouble; /* the first error of the recording ("": none); the tree was tracked in spite of it */
};

/* The defaults: 250 ms, no limit, steps from the output. */
#define TIDE_TRACK_USUAL                                                                                     \
    {                                                                                                        \
        .interval_ns = INT64_C(250000000), .limit_bytes = TIDE_UNKNOWN, .items = TIDE_UNKNOWN,               \
        .items_per_step = TIDE_UNKNOWN                                                                       \
    }

/* -1: the command did not start or there was nothing to attach to; no recording is left behind. */
int tide_track(const struct tide_track_config *config, struct tide_track_outcome *ret_outcome,
               struct tide_err *err);

/* Reads the ID of a process whose tree can be recorded: one that is there and has memory of its own. */
int tide_track_read_pid(const char *text, int64_t *ret_pid, struct tide_err *err);

/* For a tree that is already running: warns on stderr about what will be missing from the recording. */
void tide_track_say_what_is_missing(const struct tide_track_config *config);

/* Makes the path of the recording: config->path or, without one, a generated name, which may be outside the
 * current directory (recname.h). */
int tide_track_path(const struct tide_track_config *config, char ret_path[PATH_MAX], bool *ret_elsewhere,
                    struct tide_err *err);

/* Options that `run`, `attach` and `watch` share: rows for their option tables. Their values must begin with
 * a struct tide_track_config. */
/* clang-format off */
#define TIDE_TRACK_OPTION(field) offsetof(struct tide_track_config, field)
#define TIDE_TRACK_RECORDING                                                                                 \
    {'o', "output", TIDE_OPTION_TEXT, TIDE_TRACK_OPTION(path), "FILE", NULL, 0, 0,                           \
     "write the recording to FILE, which must not exist yet"},                                               \
    {'i', "interval", TIDE_OPTION_DURATION, TIDE_TRACK_OPTION(interval_ns), "INTERVAL", NULL,                \
     INT64_C(10000000), INT64_C(3600000000000), "look at the processes every INTERVAL (250ms)"},             \
    {'l', "limit", TIDE_OPTION_SIZE, TIDE_TRACK_OPTION(limit_bytes), "SIZE", NULL, 1, TIDE_LARGEST,          \
     "forecast when memory reaches SIZE, unless a lower limit applies"},                                     \
    {0, "step-regex", TIDE_OPTION_TEXT, TIDE_TRACK_OPTION(step_regex), "RE", NULL, 0, 0,                     \
     "find steps in the output with this extended regular expression; its first group is the number"}
#define TIDE_TRACK_ITEMS                                                                                     \
    {0, "items", TIDE_OPTION_COUNT, TIDE_TRACK_OPTION(items), "N", NULL, 1, TIDE_EXACT_MOST,                 \
     "the data set has N items; with --per-step, tidemark recognises one pass over it"},                     \
    {0, "per-step", TIDE_OPTION_COUNT, TIDE_TRACK_OPTION(items_per_step), "K", NULL, 1, TIDE_EXACT_MOST,     \
     "a step uses K items"}
#define TIDE_TRACK_QUIET                                                                                     \
    {'q', "quiet", TIDE_OPTION_FLAG, TIDE_TRACK_OPTION(quiet), NULL, NULL, 0, 0,                             \
     "print only the sentence of the verdict"}
#define TIDE_TRACK_OPTIONS                                                                                   \
    TIDE_TRACK_RECORDING,                                                                                    \
    {0, "no-steps-from-output", TIDE_OPTION_FLAG, TIDE_TRACK_OPTION(ignore_output), NULL, NULL, 0, 0,        \
     "do not look for steps in what the program prints"},                                                    \
    TIDE_TRACK_ITEMS,                                                                                        \
    {0, "no-status", TIDE_OPTION_FLAG, TIDE_TRACK_OPTION(no_status), NULL, NULL, 0, 0,                       \
     "show no status line on a terminal"},                                                                   \
    TIDE_TRACK_QUIET
/* clang-format on */

/* Runs tide_track() and prints its report. Returns the exit code. */
int tide_track_and_report(const struct tide_track_config *config, struct tide_err *err);

/* Prints the verdict on a finished recording and where it is, on stderr. */
void tide_track_report(const struct tide_track_outcome *outcome, bool quiet);

#endif
