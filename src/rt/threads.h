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

/* How many threads work; at least 1. Set once, before anything is prepared. */
void tide_threads_set(int count);
int tide_threads(void);

/* Calls work on parts of [0, count), at least `grain` each, and returns when all are done. */
void tide_parallel(int64_t count, int64_t grain, tide_work *work, void *context);

#endif
