/*
 * svg.h - charts that need no script: plain SVG, drawn when the page is made.
 *
 * They stretch to the width they get, lines keep theirs; everything with letters stands beside them as HTML,
 * where it stays readable on a phone. Colours come from the page's style sheet by class.
 */
#ifndef TIDE_SVG_H
#define TIDE_SVG_H

#include "show/report/page_marks.h"
#include "show/report/page_series.h"

#include <stdio.h>

/* The timeline, with axes and legend: the tree (set->series[0]), what was judged worst, floor, spikes,
 * phases, epochs, limit (NAN: none). */
void tide_report_svg_timeline(FILE *out, const struct tide_summary *summary,
                              const struct tide_report_set *set, const struct tide_report_marks *marks,
                              double limit_bytes);

/* A small line of its own, over the time from 0 to last_ns; its value holds until end_ns. mood: a class. */
void tide_report_svg_spark(FILE *out, const struct tide_report_curve *line, int64_t end_ns, int64_t last_ns,
                           const char *mood);

/* A round distance between the lines of a scale that goes up to so many bytes: four or five of them. */
double tide_report_tick(double bytes);

#endif
