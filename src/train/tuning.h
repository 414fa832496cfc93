/*
 * tuning.h - how many threads steps are fastest with, found while a run goes on.
 *
 * A step of a small model is a hundred parts of some microseconds, between which threads wait for each other
 * and for what the others wrote. Whether a second one pays depends on how near to each other the processors
 * are, which the host of a virtual machine changes within minutes, so it is tried now and then: some steps
 * with half as many threads, or with twice as many, and the faster number is kept. Trials take less than two
 * percent of the steps once they change nothing. Long steps always have work for all, and are left alone.
 */
#ifndef TIDE_TUNING_H
#define TIDE_TUNING_H

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_TUNING_STEPS = 8 }; /* that are timed with each number of threads */

struct tide_tuning {
    int most, now;                    /* threads: at most, and as was found last */
    int other;                        /* that is tried; 0: none is */
    bool tried_more;                  /* the last trial was of more than now */
    int64_t wait, left;               /* steps between trials, and until the next */
    int count;                        /* steps that were timed; below 0: steps that a change disturbs */
    int64_t ns[2][TIDE_TUNING_STEPS]; /* with now, with other */
};

/* Begins with `most` threads; 1: there is nothing to find. */
void tide_tuning_init(struct tide_tuning *tuning, int most);

/* After a step that took so long: how many threads should do the next. */
int tide_tuning_step(struct tide_tuning *tuning, int64_t ns);

#endif
