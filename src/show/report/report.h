/*
 * report.h - a recording as one page for a browser: self-contained, offline, under two megabytes.
 *
 * The verdict first, then the timeline, the culprits with their stacks, a view of live bytes by call stack,
 * and the tables. Verdict, tables and a chart are there without JavaScript; the script, which draws with d3,
 * adds zooming and the view by call stack. Everything that comes from the recording is text: escaped in the
 * page, and in the data for the script as JSON that cannot end its element. The page's own policy forbids any
 * other script and every connection.
 */
#ifndef TIDE_REPORT_H
#define TIDE_REPORT_H

#include "assess/assessment.h"
#include "plan/forecast.h"

#include <stdio.h>

/* Bytes that a page stays under, whatever the recording holds. */
#define TIDE_REPORT_MOST 2000000

/* How a file is recognised as such a page: it is within its first bytes. */
#define TIDE_REPORT_GENERATOR "<meta name=\"generator\" content=\"tidemark"

struct tide_report {
    const struct tide_history *history;
    struct tide_assessment *assessment; /* of that history */
    const char *source;                 /* the recording's name; unescaped */
    const char *version;                /* of the program */
    const struct tide_forecast *plan;   /* to stand beside it; NULL: none */
    bool plan_host;                     /* of a job on the processor */
};

/* Nothing is written when it fails, except that the stream may. The caller asks ferror(out). */
int tide_report_write(const struct tide_report *report, FILE *out, struct tide_err *err);

#endif
