/*
 * report.h - a recording as one page for a browser: self-contained, offline, under two megabytes.
 *
 * The verdict comes first, then the timeline, the culprits with their stacks, a view of live bytes by call
 * stack, and the tables. Verdict, tables and a chart need no JavaScript; the script, which draws with d3,
 * adds zooming and the view by call stack. Everything from the recording is only text: escaped in the page
 * and, in the data for the script, JSON that cannot close its element. The page's security policy forbids any
 * other script and every connection.
 */
#ifndef TIDE_REPORT_H
#define TIDE_REPORT_H

#include "assess/assessment.h"
#include "plan/forecast.h"

#include <stdio.h>

/* Every page is smaller than this many bytes, whatever the recording holds. */
#define TIDE_REPORT_MOST 2000000

/* Marks a file as such a page: it is in the first bytes. */
#define TIDE_REPORT_GENERATOR "<meta name=\"generator\" content=\"tidemark"

struct tide_report {
    const struct tide_history *history;
    struct tide_assessment *assessment; /* of that history */
    const char *source;                 /* the recording's name; unescaped */
    const char *version;                /* of the program */
    const struct tide_forecast *plan;   /* shown beside the recording; NULL: none */
    bool plan_host;                     /* the plan is for a job on the CPU */
};

/* Writes nothing if it fails, unless writing itself fails: the caller checks ferror(out). */
int tide_report_write(const struct tide_report *report, FILE *out, struct tide_err *err);

#endif
