/*
 * retention.h - tells memory that an allocator keeps from memory that leaks.
 *
 * If the memory of a process rises but what its program holds does not, that is not a leak: its allocator
 * keeps what was freed (fragmentation, or a cache). This is decided from the verdict on its memory, its live
 * bytes on the same axis and, if the allocator can be asked, its free bytes at both ends. Pure, as judge.h.
 *
 * Four conditions must hold:
 *   1. Live bytes explain next to nothing of the growth. Neither a line through their floor, at the upper end
 *      of its 95 % interval, nor the shape that fits it best rises by more than TIDE_RETENTION_LIVE of it.
 *   2. The 95th percentile of live bytes does not rise by more either. If a step needs more than before and
 *      frees it each time, the allocator only keeps what will be asked for again.
 *      A leak has not stopped, so its percentile must rise past that of the middle third; and one short
 *      rise cannot make memory rise on a line.
 *   3. Nearly as much memory is not live as has grown: all but TIDE_RETENTION_LIVE of it. Otherwise pages
 *      that were held from the beginning were only touched late.
 *   4. The allocator's free bytes, where known, grew by TIDE_RETENTION_KEPT of the growth. Otherwise the
 *      memory is neither live nor free, and comes from where nobody looked.
 */
#ifndef TIDE_RETENTION_H
#define TIDE_RETENTION_H

#include "judge/judge.h"

struct tide_retention_input {
    const struct tide_verdict *verdict; /* on the process's memory */
    struct tide_judge_input live;       /* what the program holds: x in order, bytes, count */
    double until_x;                     /* up to here the run is surely training; INFINITY: to the end */
    double kept_first,
        kept_last;        /* free bytes of the allocator where growth began and at the end; NAN: unknown */
    double managed_bytes; /* live bytes at the end that are heaps which a runtime made and manages itself: how
                             much of them the program holds is not known, nor whether there will be more */
};

struct tide_retention {
    double live_per_x, live_low, live_high; /* growth of live bytes, over the same stretch, 95 % interval */
    double live_growth;                     /* growth of live bytes by the shape that fits best */
    double live_bytes;                      /* live bytes in the last third of the run */
    double not_live_bytes;                  /* floor of the process's memory minus live_bytes */
    double crest_first, crest_last; /* 95th percentile of live bytes before the rise (of a leak: before the
                                       last third), and in the last third */
    double before_x;                /* up to here memory had not risen */
    double crest_share;             /* of the places in the last third, those halfway up to it */
    double crest_x;                 /* the last such place */
    bool live_is_flat;              /* condition 1 holds */
    bool crest_rises;               /* condition 2 does not hold */
    bool freed_again; /* memory rose because each step asks for more and frees it again: the crest rises, and
                         condition 1 holds, or holds without its interval and the crest is half of the growth
                       */
    bool retains;     /* all four conditions hold: the verdict is TIDE_RETENTION */
    bool fills;   /* conditions 1 and 2 hold, and nearly all memory is live and not in managed heaps: a buffer
                     that was allocated before is touched only now. Growth ends where the buffer does. */
    bool managed; /* it would be `fills` without the managed heaps */
};

/* Returns 1; 0 if too little is known or memory did not rise, and then writes nothing; -1 as tide_judge(). An
 * undecided verdict with a jump gives 1 only if freed_again. */
int tide_retention_judge(const struct tide_retention_input *input, struct tide_arena *scratch,
                         struct tide_retention *ret_retention, struct tide_err *err);

#endif
