/*
 * page.h - the page that is being made, shared by the files that write its parts. Nothing else includes it.
 */
#ifndef TIDE_PAGE_H
#define TIDE_PAGE_H

#include "show/report/page_marks.h"
#include "show/report/page_series.h"
#include "show/report/page_sites.h"
#include "show/report/report.h"

struct tide_report_page {
    const struct tide_report *report;
    const struct tide_history *h;
    struct tide_assessment *a;
    struct tide_arena arena;
    struct tide_summary summary;
    struct tide_report_set set;
    struct tide_report_marks marks;
    struct tide_blame *growth;      /* NULL: there are no call sites */
    struct tide_report_sites sites; /* once they are written, only how many there are */
    bool torn;                      /* memory ran out for a part */
    bool no_room;                   /* there is no room even for the sums of the sites */
    size_t thrift;                  /* 1, 2, 4 ...: rows and points are divided by it */
    FILE *out;
    struct tide_err *err;
};

/* Returns how many of `usual` rows this page has room for. */
static inline size_t tide_report_rows(const struct tide_report_page *page, size_t usual)
{
    return usual > page->thrift ? usual / page->thrift : 1;
}

/* page_verdict.c: the parts that are read first. */
void tide_report_put_verdict(struct tide_report_page *page);
void tide_report_put_culprits(struct tide_report_page *page);

/* page_tables.c: the parts in which things are looked up. */
void tide_report_put_processes(struct tide_report_page *page);
void tide_report_put_plan(struct tide_report_page *page);
void tide_report_put_tables(struct tide_report_page *page);
void tide_report_put_losses(struct tide_report_page *page);

/* page_data.c: the data for the script. */
void tide_report_put_timeline_data(struct tide_report_page *page);
void tide_report_put_sites_data(struct tide_report_page *page);

#endif
