/*
 * moment.h - what call sites hold at a moment of a recording, and which moments there are.
 *
 * A moment is a time in nanoseconds since the recording began. The usual ones: the peak of all sites
 * together, the end of training, the begin of a step. What a site held at a moment is its last point at or
 * before it; a site of a process that has ended holds nothing.
 */
#ifndef TIDE_MOMENT_H
#define TIDE_MOMENT_H

#include "show/assess.h"

/* The site's last point at or before a time, whether or not its process still runs then; NULL before its
 * first. Borrowed. */
const struct tide_history_site_point *tide_moment_point(const struct tide_history_site *site, int64_t t_ns);

/* Bytes that a site held at a time, never negative; *ret_blocks may be NULL. */
double tide_moment_live(const struct tide_history *history, const struct tide_history_site *site,
                        int64_t t_ns, double *ret_blocks);

/* What it held at to_ns less what it held at from_ns; *ret_blocks, likewise, may be NULL. */
double tide_moment_change(const struct tide_history *history, const struct tide_history_site *site,
                          int64_t from_ns, int64_t to_ns, double *ret_blocks);

/* By how much the lowest that a site held rose from the first eighth of a stretch to the last one: spikes and
 * collections do not move it. A site of a process that ended counts with what it held at its end. */
double tide_moment_growth(const struct tide_history_site *site, int64_t from_ns, int64_t to_ns);

/* When all sites together held most; the first such moment. The recording must have ticks. */
int tide_moment_peak(const struct tide_history *history, int64_t *ret_t_ns, struct tide_err *err);

/* Training: from the first step to the last; without steps, the whole recording as long as it had processes.
 * Behind the last step a program may be giving everything back. The recording must have ticks. */
void tide_moment_training(const struct tide_history *history, const struct tide_assessment *assessment,
                          int64_t *ret_from_ns, int64_t *ret_to_ns);

/* When a step began (or that second, on an axis without steps). Fails, with a sentence, outside of the
 * recording. */
int tide_moment_of_x(const struct tide_assessment *assessment, double x, int64_t *ret_t_ns,
                     struct tide_err *err);

#endif
