/*
 * diff.h - what is different between two runs, or between two moments of one.
 *
 * Two runs are compared by their verdicts and rates, by role (processes have other names and PIDs each time),
 * and by the code that holds the bytes (match.h). Bytes are compared at one moment of each run: the end of
 * training or, if one run is much longer, the last step that both reached. A difference that sampling alone
 * may explain does not count.
 */
#ifndef TIDE_DIFF_H
#define TIDE_DIFF_H

#include "assess/assessment.h"
#include "assess/match.h"
#include "assess/moment.h"

enum tide_diff_result {
    TIDE_DIFF_SAME,   /* neither is worse */
    TIDE_DIFF_BETTER, /* a leak is gone, or slower beyond the intervals of both rates and by a tenth; or only
                         A was killed for lack of memory */
    TIDE_DIFF_WORSE,  /* a new leak, or a faster one beyond the intervals and by a tenth; or only B was killed
                         for lack of memory */
    TIDE_DIFF_UNDECIDED, /* one of the two is too short to tell, or the new leak is too small */
};

enum tide_diff_change { TIDE_DIFF_GREW, TIDE_DIFF_SHRANK, TIDE_DIFF_APPEARED, TIDE_DIFF_DISAPPEARED };

/* Growth per step, or per second where only one of the two counts steps. */
struct tide_diff_rate {
    double bytes, low,
        high; /* 0: it does not grow; NAN: not known, and high is the slope that would have shown */
};

/* Processes of one role, the tree, a device or a gauge. One of the two runs may not have it (NULL). */
struct tide_diff_subject {
    char name[128];                      /* escaped */
    const struct tide_judged *level[2];  /* whose floor and peak are compared */
    const struct tide_judged *growth[2]; /* the worst of that role, whose growth is compared */
    struct tide_diff_rate rate[2];
    enum tide_diff_result result;
};

/* Code that holds more or less than before. */
struct tide_diff_site {
    struct tide_match_pair pair;
    const struct tide_history_site *site[2]; /* the largest of each; NULL: none */
    double bytes[2], blocks[2];
    double least[2], most[2]; /* that it held shortly before; only if nobody asked for a moment */
    struct tide_diff_rate rate[2];
    double rate_change; /* 0: not beyond the intervals; NAN: not known */
    double score;       /* bytes that it accounts for */
    double share;       /* of the change in rate, or in bytes; NAN: not known */
    enum tide_diff_change change;
    bool moved; /* the lines differ */
};

/* One of the two. */
struct tide_diff_side {
    const struct tide_history *history;
    struct tide_assessment *assessment;
    const char *source;
    int64_t from_ns, to_ns; /* training */
    int64_t at_ns;          /* the moment that is looked at */
    int64_t at_device_ns;   /* the same for device memory, which has a peak of its own */
    double at_x;            /* the same on the axis; NAN outside */
    double seconds_per_x;   /* to make rates comparable */
    double seconds_per_look;
    double stretch;       /* steps (or seconds) that it trained for */
    double live_bytes[2]; /* of all call sites at that moment: in RAM, and on devices */
    struct tide_diff_rate rate;
};

struct tide_diff {
    bool between; /* two moments of one recording: there is no verdict, and no subjects */
    bool usual;   /* nobody asked for a moment */
    bool has_sites;
    bool x_is_steps; /* rates are per step */
    double stretch;  /* steps (or seconds) that both trained for */
    bool by_death;   /* that one of the two was killed for lack of memory decided, not the rates */
    bool same_step;  /* both are compared at the last common step, because one run is longer */
    enum tide_diff_result result;
    const char *culprit; /* name of the subject that made it worse, if that is not the worst one; else NULL */
    struct tide_diff_side sides[2];
    struct tide_diff_subject *subjects; /* those that are in both first, largest change first */
    size_t subject_count;
    struct tide_diff_site *sites; /* largest change first */
    size_t site_count;
    size_t unchanged; /* call sites that hold as much as before, as far as sampling can tell */
    struct tide_arena arena;
};

struct tide_diff_options {
    bool between; /* two moments of one run */
    bool usual;   /* nobody asked for a moment: the end, or the last step that both reached */
    struct tide_moment moments[2]; /* otherwise: a moment of each side */
};

/* For two moments of one run, answers[1] is answers[0]. sources are the names that the user gave. Everything
 * is borrowed and must outlive the result. Caller frees with tide_diff_free. */
int tide_diff_new(const struct tide_answer *const answers[2], const char *const sources[2],
                  const struct tide_diff_options *options, struct tide_diff **ret_diff, struct tide_err *err);
void tide_diff_free(struct tide_diff *diff);

/* 0: B is no worse; 1: it is; 3: cannot be told. Always 0 between two moments of one run. */
int tide_diff_exit_code(const struct tide_diff *diff);

#endif
