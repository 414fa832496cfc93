/*
 * threads.h - work shared out among threads, the same way every time.
 *
 * One pool for the whole process, made when it is first needed; it is not for use by two threads at once.
 * Ranges are cut by count and number of threads alone. Only as many threads are woken as have a part, so that
 * little work costs the same however many there are. A thread that waits does so busily for some ten
 * microseconds, the time between two parts of a step, and then asleep.
 */
#ifndef TIDE_THREADS_H
#define TIDE_THREADS_H

#include <stdint.h>

/* [first, last) of the work, by one thread. */
typedef void tide_work(void *context, int64_t first, int64_t last);

/* How many threads work at the most, from 1 to TIDE_THREADS_MOST; unless it is set, as many as there are
 * processors. Set once, before anything is planned. */
enum { TIDE_THREADS_MOST = 256 };
void tide_threads_set(int count);
int tide_threads(void);

/* Of those, how many work from now on; all unless it is said. What was planned for all of them stays as it
 * is, and so does every bit. */
void tide_threads_use(int count);

/* Calls work on parts of [0, count), at least `grain` each, and returns when all are done. From within such
 * work it does it all at once, on the calling thread. */
void tide_parallel(int64_t count, int64_t grain, tide_work *work, void *context);

/* Within work: the number of the thread that does it, from 0. */
int tide_thread(void);

#endif
