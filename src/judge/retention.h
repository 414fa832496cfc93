/*
 * retention.h - whether memory rises that nobody holds.
 *
 * If the memory of a process rises while what its program holds does not, that is not a leak: its allocator
 * keeps what was freed (fragmentation, or a cache). Decided from the verdict on its memory, the series of
 * what is live on the same axis and, where the allocator can be asked, what it has free at the two ends.
 * Pure, as judge.h.
 *
 * Four things must hold. Live bytes explain next to nothing of the growth: neither a line through their
 * floor, at the upper end of its 95 % interval, nor the shape that fits it best rises by more than
 * TIDE_RETENTION_LIVE of it. Nor does the 95th percentile of live bytes rise by more: a step that needs more
 * than before, and frees it each time, has an allocator that keeps what will be asked for again. A leak has
 * not stopped, so this percentile must rise past that of the middle third; and a single rise for a while
 * cannot make memory rise on a line. There is at least as much memory that is not live as has grown: else
 * pages that were held from the beginning were only touched late. And what the allocator keeps free grew by
 * TIDE_RETENTION_KEPT of the growth, where that is known: else the memory is neither live nor free, and comes
 * from where nobody looked.
 */
#ifndef TIDE_RETENTION_H
#define TIDE_RETENTION_H

#include "judge/judge.h"

struct tide_retention_input {
    const struct tide_verdict *verdict; /* on the process's memory */
    struct tide_judge_input live;       /* what the program holds: x in order, bytes, count */
    double until_x;                     /* up to where it is surely training; INFINITY: to the end */
    double kept_first,
        kept_last;        /* free bytes of the allocator where growth began and at the end; NAN: unknown */
    double managed_bytes; /* of what is live at the end, heaps that a runtime made for itself and manages:
                             what of them the program holds is not known, nor whether there will be more */
};

struct tide_retention {
    double live_per_x, live_low, live_high; /* growth of what is live, over the same stretch, 95 % interval */
    double live_growth;                     /* over that stretch, of the shape that fits it best */
    double live_bytes;                      /* what is live, in the last third of the run */
    double not_live_bytes;                  /* floor of the process's memory less that */
    double crest_first, crest_last; /* what is live at the most before the rise (of a leak: before the last
                                       third), and in the last third */
    double before_x;                /* up to where it was before the rise */
    double crest_share;             /* of the places in the last third, those half as high or more */
    double crest_x;                 /* the last of them */
    bool live_is_flat;              /* the first of the four */
    bool crest_rises;               /* the second does not hold */
    bool freed_again; /* that is why memory rose: each step asks for more and gives it back. Either the first
                         holds, or it does but for its interval and the crest explains half of the growth */
    bool retains;     /* all four: the verdict is TIDE_RETENTION */
    bool fills; /* the first two, and nearly all memory is live, and not in managed heaps: what grows is pages
                   of memory that was taken before and is touched only now, a buffer that fills. It ends where
                   that memory does. */
    bool managed; /* it would fill, but for managed heaps */
};

/* 1; 0: not enough is known, or memory did not rise, and nothing was written; -1 as tide_judge(). Of a jump
 * beside which it is undecided what memory does, only whether it is freed again is known. */
int tide_retention_judge(const struct tide_retention_input *input, struct tide_arena *scratch,
                         struct tide_retention *ret_retention, struct tide_err *err);

#endif
