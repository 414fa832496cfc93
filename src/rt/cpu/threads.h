/*
 * threads.h - a thread pool that splits work the same way every time.
 *
 * There is one pool for the whole process, made on first use; two threads must not use it at once. How ranges
 * are split depends only on the count and the number of threads. Only as many threads are woken as have a
 * part, so a little work costs the same however many there are. A waiting thread spins for some ten
 * microseconds, the time between two parts of a step, and then sleeps.
 */
#ifndef TIDE_THREADS_H
#define TIDE_THREADS_H

#include <stdint.h>

/* Does [first, last) of the work, on one thread. */
typedef void tide_work(void *context, int64_t first, int64_t last);

/* The largest number of threads, from 1 to TIDE_THREADS_MOST; by default the number of processors. Set it
 * once, before anything is planned. */
enum { TIDE_THREADS_MOST = 256 };
void tide_threads_set(int count);
int tide_threads(void);

/* Uses only `count` of them from now on; by default all. Plans made for all threads stay valid, and no bit
 * changes. */
void tide_threads_use(int count);

/* Calls work on parts of [0, count), at least `grain` each, and returns when all are done. Called from within
 * such work, it does everything on the calling thread. */
void tide_parallel(int64_t count, int64_t grain, tide_work *work, void *context);

/* Within work: returns the number of the current thread, from 0. */
int tide_thread(void);

#endif
