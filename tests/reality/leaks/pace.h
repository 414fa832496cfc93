/* pace.h - steps at an even pace, each printed as training loops print theirs, until the program has run for as long as its
 * first argument says. */
#ifndef PACE_H
#define PACE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double pace_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The number of the step that begins, or -1 when the time is over. */
static int next_step(char **argv)
{
    static double end;
    static int step = -1;
    if (step < 0)
        end = pace_now() + atof(argv[1]);
    else {
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
    }
    if (pace_now() >= end)
        return -1;
    printf("step %d\n", ++step);
    fflush(stdout);
    return step;
}

#endif
