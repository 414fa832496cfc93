/*
 * page_marks.h - the program's marks as a page draws them: phases as stretches of time, epochs and steps as
 * moments; short enough to embed.
 */
#ifndef TIDE_PAGE_MARKS_H
#define TIDE_PAGE_MARKS_H

#include "assess/summary.h"
#include "base/arena.h"

/* An epoch or a (rounded) step. */
struct tide_report_mark {
    int64_t t_ns, number;
};

struct tide_report_marks {
    const char **names; /* of phases, in the order in which they began; borrowed, unescaped */
    size_t name_count;
    struct tide_stretch *spans; /* in order of their begin; name: index into these names */
    size_t span_count;
    int64_t merged_ns;     /* stretches of a phase with a smaller gap are merged; 0: none are */
    size_t spans_left_out; /* of phases for whose names there was no room */
    struct tide_report_mark *epochs;
    size_t epoch_count;
    size_t epochs_left_out;
    struct tide_report_mark *steps; /* none if the axis is seconds; interpolate between two */
    size_t step_count;
};

/* Lives in the arena. */
int tide_report_marks_make(const struct tide_summary *summary, struct tide_arena *arena,
                           struct tide_report_marks *ret_marks, struct tide_err *err);

#endif
