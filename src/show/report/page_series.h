/*
 * page_series.h - the series that a page draws: memory over time with its floor and its spikes, short enough
 * to embed.
 *
 * The tree comes first, then the judged series, the worst first. A value holds from its point until the next
 * one, the last until end_ns. Everything lives in the arena that it was made in.
 */
#ifndef TIDE_PAGE_SERIES_H
#define TIDE_PAGE_SERIES_H

#include "assess/assessment.h"
#include "assess/summary.h"
#include "base/arena.h"

struct tide_report_point {
    int64_t t_ns;
    int64_t bytes;
};

struct tide_report_curve {
    struct tide_report_point *points;
    size_t count;
};

struct tide_report_series {
    const struct tide_judged *judged; /* borrowed; has the name */
    struct tide_report_curve level;
    struct tide_report_curve floor;  /* as judged, without bumps and dips */
    struct tide_report_curve spikes; /* the top of each */
    struct tide_report_curve live;   /* of a process: bytes that its program holds; empty if unknown */
    int64_t end_ns;
};

struct tide_report_set {
    struct tide_report_series *series;
    size_t count;
    size_t left_out;   /* judged series that are not here */
    bool shortened;    /* some have fewer points than the recording */
    size_t beside;     /* index of the series to draw with the tree: the worst of host memory; 0: none */
    bool beside_level; /* its level differs enough from the tree to be drawn; its live bytes always are */
};

enum { TIDE_REPORT_SERIES_MOST = 24 };

/* thrift: 1 for curves of the usual length, 2 for half of that ... */
int tide_report_series_make(const struct tide_summary *summary, const struct tide_assessment *assessment,
                            size_t thrift, struct tide_arena *arena, struct tide_report_set *ret_set,
                            struct tide_err *err);

/* Returns the highest value of a curve; 0 if it is empty. */
double tide_report_curve_most(const struct tide_report_curve *curve);

/* Shortens a curve in place to about `most` points, keeping lows and highs. */
void tide_report_curve_thin(struct tide_report_curve *curve, size_t most);

/* Makes the curve of a site's live bytes. 0, or -1: out of memory. */
int tide_report_site_curve(const struct tide_history_site *site, struct tide_arena *arena,
                           struct tide_report_curve *ret_curve);

/* Returns the time at a place on the axis. */
int64_t tide_report_time(const struct tide_summary *summary, double x);

/* Returns the series of that process, borrowed; NULL: there is none. */
const struct tide_report_series *tide_report_series_find(const struct tide_report_set *set, int64_t process);

#endif
