/*
 * tuning.h - finds how many threads steps are fastest with, during a run.
 *
 * A step of a small model is a hundred parts of some microseconds each; in between, threads wait for each
 * other and for what the others wrote. Whether a second thread pays depends on how close the processors are,
 * which the host of a virtual machine changes within minutes. So some steps now and then run with half or
 * twice as many threads, and the faster number is kept. Once trials change nothing, they take less than two
 * percent of the steps. Long steps always have work for all threads and are left alone.
 */
#ifndef TIDE_TUNING_H
#define TIDE_TUNING_H

#include <stdbool.h>
#include <stdint.h>

enum { TIDE_TUNING_STEPS = 8 }; /* timed with each number of threads */

struct tide_tuning {
    int most, now;                    /* threads: at most, and as found last */
    int other;                        /* the number being tried; 0: none */
    bool tried_more;                  /* the last trial was of more than `now` */
    int64_t wait, left;               /* steps between trials, and until the next */
    int count;                        /* steps timed; below 0: steps that a change disturbs */
    int64_t ns[2][TIDE_TUNING_STEPS]; /* with `now`, with `other` */
};

/* Starts with `most` threads; 1: there is nothing to find. */
void tide_tuning_init(struct tide_tuning *tuning, int most);

/* Call after each step with its time. Returns how many threads should do the next. */
int tide_tuning_step(struct tide_tuning *tuning, int64_t ns);

#endif
