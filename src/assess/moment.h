/*
 * moment.h - what call sites hold at a moment of a recording, and which moments there are.
 *
 * A moment is a time in nanoseconds since the recording began. The usual ones: the peak of all sites
 * together, the end of training, the start of a step. What a site held at a moment is its last point at or
 * before it; a site of a process that has ended holds nothing.
 */
#ifndef TIDE_MOMENT_H
#define TIDE_MOMENT_H

#include "assess/assessment.h"

/* Returns the site's last point at or before a time, even if its process has ended by then; NULL before its
 * first. Borrowed. */
const struct tide_history_site_point *tide_moment_point(const struct tide_history_site *site, int64_t t_ns);

/* Returns the bytes that a site held at a time, never negative. ret_blocks may be NULL. */
double tide_moment_live(const struct tide_history *history, const struct tide_history_site *site,
                        int64_t t_ns, double *ret_blocks);

/* Finds the least and the most that a site held from from_ns to to_ns. */
void tide_moment_range(const struct tide_history *history, const struct tide_history_site *site,
                       int64_t from_ns, int64_t to_ns, double *ret_least, double *ret_most);

/* The same, from the points in that time and the one before them, even if the process has ended. */
void tide_moment_extremes(const struct tide_history_site *site, int64_t from_ns, int64_t to_ns,
                          double *ret_lowest, double *ret_highest);

/* Returns the mean bytes between samples of a process's small allocations; 0 if not known. */
double tide_moment_interval(const struct tide_history *history, int64_t process);

/* Returns the probability that a block of that size, made at that site, was seen: 1 - exp(-s/R), or 1 from
 * R/4 on (from R on for tensors, whose R is larger), and 1 for what is never sampled. */
double tide_moment_sampled(const struct tide_history *history, const struct tide_history_site *site,
                           double size);

/* True if a site's mappings of that size are arenas of Python's own allocator, which maps one at whatever
 * line needs the next. */
bool tide_moment_is_arena(const struct tide_history *history, const struct tide_history_site *site,
                          double size);

/* Standard error of a site's bytes, which are estimated from samples; 0 for blocks that are always seen. */
double tide_moment_noise(const struct tide_history *history, const struct tide_history_site *site,
                         double bytes, double blocks);

/* Returns by how much the lowest that a site held rose from the first eighth of a stretch to its last eighth.
 * Spikes and collections do not move it. After its process ended, a site counts with what it held last. */
double tide_moment_growth(const struct tide_history_site *site, int64_t from_ns, int64_t to_ns);

/* Adds the change of a site at tick i to changes[i], and changes after the last tick to
 * changes[tick_count]. */
void tide_moment_add_changes(const struct tide_history *history, const struct tide_history_site *site,
                             double *changes);

/* Finds the first moment at which all sites of the host, or all on devices, together held most. The recording
 * must have ticks. */
int tide_moment_peak(const struct tide_history *history, bool on_device, int64_t *ret_t_ns,
                     struct tide_err *err);

/* Training: from the first step to the last; without steps, the whole recording while it had processes, up to
 * where live memory last rose. After that a program may be freeing everything. The recording must have ticks.
 */
void tide_moment_training(const struct tide_history *history, const struct tide_assessment *assessment,
                          int64_t *ret_from_ns, int64_t *ret_to_ns);

/* A moment as a user names it. */
struct tide_moment {
    enum { TIDE_MOMENT_END, TIDE_MOMENT_PEAK, TIDE_MOMENT_STEP } kind; /* END: of training */
    double step; /* or second, on an axis without steps */
};

/* "end", "peak", or the number of a step. */
int tide_moment_parse(const char *text, struct tide_moment *ret_moment, struct tide_err *err);

/* Finds its time: of a step, when that began; of the peak, that of the host. Fails if it is outside of the
 * recording, which must have ticks. */
int tide_moment_find(const struct tide_moment *moment, const struct tide_history *history,
                     const struct tide_assessment *assessment, int64_t *ret_t_ns, struct tide_err *err);

#endif
