/*
 * page_sites.h - the call sites that a page shows: their stacks merged into one tree, and what each held at
 * moments spread over the recording.
 *
 * A page has room for a limited number: the culprits first, then those that held most at any of the moments.
 * The rest of a process's sites become one more site without a stack. Everything lives in the arena that it
 * was made in.
 */
#ifndef TIDE_PAGE_SITES_H
#define TIDE_PAGE_SITES_H

#include "assess/assessment.h"
#include "assess/blame.h"
#include "base/arena.h"

/* The kind of a frame, for its colour. The letters go into the page. */
enum tide_report_label_kind {
    TIDE_LABEL_PYTHON = 'p', /* the program's own */
    TIDE_LABEL_SOURCE = 's', /* native, the program's own */
    TIDE_LABEL_PYTHON_LIBRARY = 'q',
    TIDE_LABEL_NATIVE = 'n',
    TIDE_LABEL_PROCESS = 'o',
    TIDE_LABEL_REST = 'r',
};

struct tide_report_label {
    const char *text; /* escaped */
    enum tide_report_label_kind kind;
};

/* Parents come before their children. The roots are processes. */
struct tide_report_node {
    int32_t parent; /* -1: none */
    int32_t label;
};

struct tide_report_site {
    int32_t node;
    enum tide_site_kind kind;
    size_t merged;   /* number of sites that it stands for */
    double growth;   /* over the training */
    int64_t *values; /* bytes at each moment */
    bool culprit;
};

struct tide_report_sites {
    int64_t *moments_ns; /* in order */
    size_t moment_count;
    size_t first, last, peak; /* moments: begin and end of training, and the largest sum of all sites */
    struct tide_report_label *labels;
    size_t label_count;
    struct tide_report_node *nodes;
    size_t node_count;
    struct tide_report_site *sites;
    size_t site_count;
    size_t left_out; /* sites merged into another */
};

/* extra_ns: moments to include (tops of spikes), at most TIDE_REPORT_EXTRA of them. most: sites with a stack
 * of their own. blame may be NULL. The history must have sites and ticks. */
enum { TIDE_REPORT_MOMENTS = 96, TIDE_REPORT_EXTRA = 16 };
int tide_report_sites_make(const struct tide_history *history, struct tide_assessment *assessment,
                           const struct tide_blame *blame, const int64_t *extra_ns, size_t extra_count,
                           size_t most, struct tide_arena *arena, struct tide_report_sites *ret_sites,
                           struct tide_err *err);

#endif
