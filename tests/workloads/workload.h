/*
 * workload.h - what the ground truth programs have in common: options, pace, memory that is really there.
 *
 * Every program takes
 *     --steps N       how many steps (default 400)
 *     --step-ms M     how long a step lasts (default 20: 8 seconds in all)
 *     --bytes SIZE    what the program's truth speaks of, e.g. 64K, 2M: rounded up to whole pages
 *     --every K       period or moment in steps, where the program has one
 *     --talk          prints "step N" lines, as a program does that knows nothing of marks
 *     --no-marks      leaves no marks
 *     --pid-file F    writes the PID of the process that grows into F
 * and whatever its own header adds. Steps keep absolute deadlines, so a slow machine changes no rate. Huge
 * pages are off and kept memory is mapped and written page by page, so truths hold to the page.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "tidemark.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct workload {
    int64_t steps, step_ms, bytes, every;
    int64_t items, per_step; /* cache */
    int64_t hold_ms;         /* spikes: length of the phase */
    bool talk, marks;
    bool inner; /* wrapper: this is the wrapped program */
    const char *pid_file;
    int64_t start_ns; /* CLOCK_MONOTONIC */
    uint64_t random;
};

static inline void workload_fail(const char *what)
{
    fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
    exit(2);
}

static inline int64_t workload_number(const char *option, const char *text)
{
    char *end;
    errno = 0;
    long long value = text ? strtoll(text, &end, 10) : -1;
    int shift = !text ? 0 : *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (!text || end == text || end[shift != 0] || errno || value < 0 || value > INT64_MAX >> 31) {
        fprintf(stderr, "workload: '%s' needs a number like 400, 64K or 2M\n", option);
        exit(2);
    }
    return (int64_t)value << shift;
}

static inline int64_t workload_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline size_t workload_pages(int64_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return ((size_t)bytes + page - 1) / page * page;
}

/* Fills w, which holds the program's defaults, from argv. */
static inline void workload_init(struct workload *w, int argc, char **argv)
{
    w->steps = w->steps ? w->steps : 400;
    w->step_ms = w->step_ms ? w->step_ms : 20;
    w->marks = true;
    w->random = 88172645463325252u;
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = {{"--steps", &w->steps},    {"--step-ms", &w->step_ms}, {"--bytes", &w->bytes},
                   {"--every", &w->every},    {"--items", &w->items},     {"--per-step", &w->per_step},
                   {"--hold-ms", &w->hold_ms}};
    for (int i = 1; i < argc; i++) {
        size_t n = 0, count = sizeof numbers / sizeof *numbers;
        while (n < count && strcmp(argv[i], numbers[n].name))
            n++;
        if (n < count) {
            *numbers[n].value = workload_number(argv[i], argv[i + 1]);
            i++;
        } else if (!strcmp(argv[i], "--talk")) {
            w->talk = true;
        } else if (!strcmp(argv[i], "--no-marks")) {
            w->marks = false;
        } else if (!strcmp(argv[i], "--inner")) {
            w->inner = true;
        } else if (!strcmp(argv[i], "--pid-file") && argv[i + 1]) {
            w->pid_file = argv[++i];
        } else {
            fprintf(stderr, "workload: unknown option '%s'\n", argv[i]);
            exit(2);
        }
    }
    w->every = w->every ? w->every : 1;
    w->per_step = w->per_step ? w->per_step : 1;
    w->bytes = (int64_t)workload_pages(w->bytes);
    setvbuf(stdout, NULL, _IOLBF, 0);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
    w->start_ns = workload_now_ns();
}

/* Called by the process whose growth is the truth. */
static inline void workload_sign(const struct workload *w)
{
    if (!w->pid_file)
        return;
    FILE *out = fopen(w->pid_file, "w");
    if (!out || fprintf(out, "%d\n", (int)getpid()) < 0 || fclose(out))
        workload_fail(w->pid_file);
}

static inline void workload_touch(unsigned char *memory, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page)
        *(volatile unsigned char *)(memory + at) = (unsigned char)(at / page + 1);
}

/* Whole pages, all of them resident. */
static inline unsigned char *workload_map(int64_t bytes)
{
    size_t size = workload_pages(bytes);
    if (size == 0)
        return NULL;
    unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        workload_fail("mmap");
    workload_touch(memory, size);
    return memory;
}

static inline uint64_t workload_random(struct workload *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    return w->random ^= w->random << 17;
}

/* What a step of training does to the heap without keeping anything: 32 blocks of 1 to 128 KiB, 2 MiB at
 * once. The heap's high-water mark is reached within the first few steps and stays. */
static inline void workload_churn(struct workload *w)
{
    unsigned char *blocks[32];
    for (int i = 0; i < 32; i++) {
        size_t bytes = 1024 + workload_random(w) % (127 * 1024);
        blocks[i] = malloc(bytes);
        if (!blocks[i])
            workload_fail("malloc");
        workload_touch(blocks[i], bytes);
    }
    for (int i = 0; i < 32; i++)
        free(blocks[(i * 13 + 5) % 32]);
}

/* Brings the heap to what this many threads of churn can ever need at once, so that churn moves nothing from
 * here on. */
static inline void workload_warm_heap(int64_t threads)
{
    int64_t count = 40 * threads;
    unsigned char **blocks = calloc((size_t)count, sizeof *blocks);
    if (!blocks)
        workload_fail("calloc");
    for (int64_t i = 0; i < count; i++) {
        blocks[i] = malloc(128 * 1024);
        if (!blocks[i])
            workload_fail("malloc");
        workload_touch(blocks[i], 128 * 1024);
    }
    while (count)
        free(blocks[--count]);
    free(blocks);
}

/* Step n begins: says so as the options want it said. */
static inline void workload_step(const struct workload *w, int64_t n)
{
    if (w->marks)
        tide_step(n);
    if (w->talk)
        printf("step %" PRId64 "\n", n);
}

static inline void workload_sleep_until(int64_t t_ns)
{
    struct timespec until = {t_ns / 1000000000, t_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* Step n ends: waits for its deadline. */
static inline void workload_pace(const struct workload *w, int64_t n)
{
    workload_sleep_until(w->start_ns + (n + 1) * w->step_ms * 1000000);
}

#endif
