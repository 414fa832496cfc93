/*
 * assessment_private.h - the state of one assessment, shared by assessment.c (which series there are),
 * gauges.c (gauges and GPUs), sums.c (roles and the tree), retained.c (does the program hold what rises?),
 * asked.c (did the process ask for it?), crest.c (do peaks rise?) and worst.c (which series is the answer).
 * Nothing else includes it.
 */
#ifndef TIDE_ASSESSMENT_PRIVATE_H
#define TIDE_ASSESSMENT_PRIVATE_H

#include "assess/assessment.h"
#include "assess/axis.h"

enum {
    TIDE_LEAST_MOMENTS = 8, /* a process seen less often is not judged by itself */
    TIDE_JUDGED_MOST = 512, /* series per recording; the largest processes first */
};

struct tide_assessing {
    const struct tide_history *h;
    const struct tide_assess_options *options;
    struct tide_assessment *a;
    struct tide_arena *arena;
    struct tide_arena *scratch;
    struct tide_axis axis;
    struct tide_span *spans;
    size_t span_count;
    double *epochs;
    size_t epoch_count;
    int64_t *bucket_ns; /* when each bucket begins; one more for the end */
    double *bucket_x;   /* NAN: before the first step */
    int *bucket_phase;  /* name of the innermost phase when the tree was highest in it; -1: none ran */
    size_t buckets;
    size_t *by_role; /* indices of processes by role, within a role in the order of first sight */
    size_t *role_of; /* per process: the number of its role, from 0 */
    size_t role_count;
    double tree_now;                                /* counted bytes at the end */
    const struct tide_limit *rlimits[TIDE_RLIMITS]; /* the last of each; NULL: none */
    double *rest; /* per process: what is added to its private bytes in a sum (sums.c) */
    struct tide_err *err;
};

/* Returns -1 with a sentence. */
static inline int tide_assessing_no_memory(struct tide_err *err)
{
    return tide_err_set(err, "not enough memory to judge the recording");
}

/* Makes the axis, buckets, epochs, phases and roles that series are judged on. -1: no memory. (frame.c) */
int tide_assessing_frame(struct tide_assessing *s);

/* Returns the role of a process, or its name if it has none; lives in the assessment. NULL: out of memory. */
const char *tide_assessing_role(const struct tide_assessing *s, const struct tide_history_process *process);

/* Returns when a process ended, or the end of the recording. */
int64_t tide_assessing_end(const struct tide_assessing *s, const struct tide_history_process *process);

/* Returns the time at which the axis reaches x. */
int64_t tide_assessing_time(const struct tide_assessing *s, double x);

/* Returns what a part of the tree, now at `now` bytes, may grow to before the whole tree hits its limit. */
double tide_assessing_limit(const struct tide_assessing *s, double now);

/* Judges levels from began_ns to ended_ns and adds the series to the assessment, unless it is too short.
 * as_read: the levels were read more rarely than the tree was looked at, so each is known only in the bucket
 * in which it was read, not until the next one. -1: no memory. */
int tide_assessing_levels(struct tide_assessing *s, const struct tide_level *levels, size_t count,
                          int64_t began_ns, int64_t ended_ns, bool as_read, struct tide_judged judged);

/* Judges gauges, shared memory and GPUs. -1: no memory. (gauges.c) */
int tide_assessing_rows(struct tide_assessing *s);

/* Judges the sums over the processes of each role and of the tree. -1: no memory. (sums.c) */
int tide_assessing_sums(struct tide_assessing *s);
/* What a process counts for at a look, after tide_assessing_sums(): a page that several share counts once. */
double tide_assessing_own(const struct tide_assessing *s, size_t process,
                          const struct tide_history_point *point);
/* Once all are judged, takes back a verdict on a sum that none of its processes shares: a sum leaks, retains,
 * or fills what it has, only if they explain that. */
void tide_assessing_explain_sums(struct tide_assessing *s);

/* Makes a series on the axis from levels, as the judge takes it: lowest and, where it differs, highest of
 * each bucket. It lives in the scratch arena. as_read: as in tide_assessing_levels(). -1: no memory. */
int tide_assessing_series(struct tide_assessing *s, const struct tide_level *levels, size_t count,
                          int64_t began_ns, int64_t ended_ns, bool as_read,
                          struct tide_judge_input *ret_series);

/* Returns for how many more steps or seconds growth may be just the program's start; 0 or less: it is not. */
double tide_assessing_left_of_start(const struct tide_assessing *s, const struct tide_judged *judged);

/* Adds what is known of live memory to the verdict on a process, which may become retention, or a leak of
 * what is held while memory is level. -1: no memory. (retained.c) */
int tide_assessing_retention(struct tide_assessing *s, const struct tide_history_process *process,
                             struct tide_judged *judged);
/* The same for a GPU whose memory rose because tensors take up more for a while: the framework keeps what it
 * took for them. The verdict stays. */
int tide_assessing_tensors(struct tide_assessing *s, struct tide_judged *judged);
/* True if a process shared private memory with its parent, as far as was read: not all of it was its own.
 * (worst.c) */
bool tide_assessing_shared_private(const struct tide_history_process *process);
/* Returns which pages were a process's own at a reading of its PSS. USS also counts pages of files that
 * nobody else has mapped, which are page cache: what a worker reads through a mapping, and a library that
 * another program had open until it ended. So it counts up to the private memory, and what was mapped of
 * files since the first reading is taken off. (worst.c) */
double tide_assessing_own_pages(const struct tide_history_process *process, size_t reading);
/* Returns how much of its memory became its own since a reading, although it took no more: a forked worker
 * copies what it writes, and in Python what it reads. The tree holds it twice from then on, but RSS does not
 * show it. (worst.c) */
double tide_assessing_no_longer_shared(const struct tide_history_process *process, size_t since);
/* Makes the verdict flat: what grew is too little to matter. A leak of that slope would have shown. */
void tide_assessing_flat(struct tide_verdict *verdict, double detectable);
/* Makes the verdict undecided: so many more steps or seconds would tell whether the growth is a leak. */
void tide_assessing_doubt(struct tide_verdict *verdict, double steps_needed);
/* Makes the verdict a plateau: the growth is bounded by memory that is held already. */
void tide_assessing_fill(struct tide_judged *judged, double ceiling_bytes);

/* Takes back the verdict on a process that grows although it has asked for no more. (asked.c) */
void tide_assessing_asked(const struct tide_assessing *s, const struct tide_history_process *process,
                          struct tide_judged *judged);

/* Returns who held most of a process's tensors on the host, and more than at an earlier census; NULL: nobody.
 * Borrowed from the history, unescaped. (holders.c) */
const char *tide_holder_of_more(const struct tide_history *history, int64_t process);

/* Fills `crest` and `passing` of every judged series. -1: no memory. (crest.c) */
int tide_assessing_crests(struct tide_assessing *s);

/* Puts the worst first. */
void tide_assessing_rank(struct tide_assessment *assessment);

/* Fills `others` and `evidence`, once ranked. */
void tide_assessing_describe(const struct tide_assessing *s);

#endif
