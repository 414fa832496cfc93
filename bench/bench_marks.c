/*
 * bench_marks.c - what a mark costs the program that makes it, tracked and not.
 *
 * Each number is the median of BATCHES batches of CALLS calls in a process of its own (a process attaches
 * once in its life), and the lowest and highest batch beside it. The promise is at most 50 ns tracked.
 */
#include "base/clock.h"
#include "channel/channel.h"
#include "tidemark.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 41, CALLS = 100000, WARM_UP = 10000 };

static void call_step(int64_t i)
{
    tide_step(i);
}

static void call_gauge(int64_t i)
{
    tide_gauge("torch allocated", i);
}

static void call_phase(int64_t i)
{
    if (i & 1)
        tide_phase_end("validation");
    else
        tide_phase_begin("validation");
}

static void call_clock(int64_t i)
{
    struct timespec now;
    (void)i;
    clock_gettime(CLOCK_MONOTONIC, &now);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *label, void (*call)(int64_t))
{
    double ns[BATCHES];
    for (int64_t i = 0; i < WARM_UP; i++)
        call(i);
    for (int b = 0; b < BATCHES; b++) {
        int64_t start = tide_clock_ns();
        for (int64_t i = 0; i < CALLS; i++)
            call(i);
        ns[b] = (double)(tide_clock_ns() - start) / CALLS;
    }
    qsort(ns, BATCHES, sizeof *ns, by_value);
    printf("%-34s %8.1f %8.1f %8.1f\n", label, ns[BATCHES / 2], ns[0], ns[BATCHES - 1]);
    fflush(stdout);
}

static int in_child(const char *channel, const char *label, void (*call)(int64_t))
{
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0) {
        if (channel)
            setenv(TIDE_CHANNEL_ENV, channel, 1);
        else
            unsetenv(TIDE_CHANNEL_ENV);
        if (!!channel != !!tide_tracked())
            _exit(1);
        measure(label, call);
        _exit(0);
    }
    int status;
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

int main(void)
{
    struct tide_channel *channel;
    struct tide_descriptors descriptors = {.most = 64};
    struct tide_err err;
    if (tide_channel_new(&descriptors, &channel, &err)) {
        fprintf(stderr, "bench_marks: %s\n", err.text);
        return 2;
    }
    const char *path = tide_channel_path(channel);
    printf("%-34s %8s %8s %8s   ns per call, %d batches of %d\n", "", "median", "lowest", "highest", BATCHES,
           CALLS);
    fflush(stdout);
    int bad = in_child(NULL, "clock_gettime alone", call_clock) ||
              in_child(NULL, "tide_step, untracked", call_step) ||
              in_child(NULL, "tide_gauge, untracked", call_gauge) ||
              in_child(path, "tide_step, tracked", call_step) ||
              in_child(path, "tide_phase_begin/end, tracked", call_phase) ||
              in_child(path, "tide_gauge, tracked", call_gauge);
    tide_channel_free(channel);
    if (bad)
        fprintf(stderr, "bench_marks: a measuring process failed\n");
    return bad ? 2 : 0;
}
