/*
 * page_data.h - what the script of a page works on, as JSON: documents "tidemark.timeline/1" and
 * "tidemark.sites/1", private to the page that holds them.
 *
 * Lists of times (milliseconds) and bytes are written as differences from one to the next, the first as it
 * is: most are small, and a page has a limit. Texts are escaped for display here, so that the script only has
 * to put them as text.
 */
#ifndef TIDE_PAGE_DATA_H
#define TIDE_PAGE_DATA_H

#include "show/report/page_marks.h"
#include "show/report/page_series.h"
#include "show/report/page_sites.h"

#include <stdio.h>

void tide_report_data_timeline(FILE *out, const struct tide_summary *summary,
                               const struct tide_assessment *assessment, const struct tide_report_set *set,
                               const struct tide_report_marks *marks);

void tide_report_data_sites(FILE *out, const struct tide_report_sites *sites);

#endif
