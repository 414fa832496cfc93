/*
 * svg.h - charts that need no script: plain SVG, drawn when the page is made.
 *
 * They stretch to the available width while lines keep their thickness. All text stands beside them as HTML,
 * so that it stays readable on a phone. Colours come from the page's style sheet by class.
 */
#ifndef TIDE_SVG_H
#define TIDE_SVG_H

#include "show/report/page_marks.h"
#include "show/report/page_series.h"

#include <stdio.h>

/* Draws the timeline with axes and legend: the tree (set->series[0]), the worst of what was judged, floor,
 * spikes, phases, epochs, limit (NAN: none). */
void tide_report_svg_timeline(FILE *out, const struct tide_summary *summary,
                              const struct tide_report_set *set, const struct tide_report_marks *marks,
                              double limit_bytes);

/* Draws a sparkline over the time from 0 to last_ns; the last value holds until end_ns. mood: a class. */
void tide_report_svg_spark(FILE *out, const struct tide_report_curve *line, int64_t end_ns, int64_t last_ns,
                           const char *mood);

/* Returns a round distance between the lines of a scale up to `bytes`, for four or five lines. */
double tide_report_tick(double bytes);

#endif
