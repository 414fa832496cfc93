/*
 * threads.h - work shared out among threads, the same way every time.
 *
 * The threads are OpenMP's, which the matrix library uses too, so that there is one pool. Ranges are cut by
 * count and number of threads alone: the same bits come out for the same number of threads.
 */
#ifndef TIDE_THREADS_H
#define TIDE_THREADS_H

#include <stdint.h>

/* [first, last) of the work, by one thread, whose number counts from 0. */
typedef void tide_work(void *context, int64_t first, int64_t last, int thread);

/* Call first in main, with its argv. A thread of OpenMP that waits for another keeps its processor busy for
 * 15 ms, unless the environment says otherwise when the program starts: where others want the processor too,
 * steps of a millisecond then take hundreds. So the program starts itself again, with 0.2 ms there. A user's
 * own setting stays. */
void tide_threads_settle(char **argv);

/* How many threads work; at least 1. Set once, before anything is prepared. */
void tide_threads_set(int count);
int tide_threads(void);

/* Calls work on parts of [0, count), at least `grain` each, and returns when all are done. */
void tide_parallel(int64_t count, int64_t grain, tide_work *work, void *context);

#endif
