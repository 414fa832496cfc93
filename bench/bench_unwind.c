/*
 * bench_unwind.c - what a stack costs: the candidates the hook could have used, on the same stacks.
 *
 * Usage: bench_unwind [ROUNDS]
 *
 * Stacks of 8, 14, 20 and 40 calls of functions without frame pointers, walked by libgcc's _Unwind_Backtrace,
 * by glibc's backtrace(), by libunwind's unw_backtrace if it is installed, and by src/hook/unwind.c. Each
 * figure is the median of 9 batches after a first batch that fills the caches.
 */
#include "hook/object.h"
#include "hook/unwind.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unwind.h>

enum { WORDS = 128, BATCHES = 9 };

static struct tide_unwind_stack stack;
static int (*unw_backtrace)(void **, int);

struct trace {
    void *at[WORDS];
    int count;
};

static _Unwind_Reason_Code take(struct _Unwind_Context *context, void *argument)
{
    struct trace *trace = argument;
    if (trace->count == WORDS)
        return _URC_END_OF_STACK;
    trace->at[trace->count++] = (void *)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static __attribute__((noinline)) int by_libgcc(void)
{
    struct trace trace = {.count = 0};
    _Unwind_Backtrace(take, &trace);
    return trace.count;
}

static __attribute__((noinline)) int by_backtrace(void)
{
    void *at[WORDS];
    return backtrace(at, WORDS);
}

static __attribute__((noinline)) int by_libunwind(void)
{
    void *at[WORDS];
    return unw_backtrace(at, WORDS);
}

static __attribute__((noinline)) int by_tables(void)
{
    uint64_t words[WORDS];
    struct tide_unwind_trace trace = {.words = words, .room = WORDS};
    tide_unwind_walk(TIDE_UNWIND_CALLER, &stack, &trace);
    return (int)trace.count;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct job {
    int (*walk)(void);
    int rounds, frames;
    double ns; /* of one walk */
};

static __attribute__((noinline)) void measure(struct job *job)
{
    double batches[BATCHES] = {0};
    for (int batch = -1; batch < BATCHES; batch++) {
        int64_t from = now_ns();
        for (int i = 0; i < job->rounds; i++)
            job->frames = job->walk();
        if (batch >= 0)
            batches[batch] = (double)(now_ns() - from) / job->rounds;
    }
    qsort(batches, BATCHES, sizeof *batches, compare);
    job->ns = batches[BATCHES / 2];
}

static int descend_a(int depth, struct job *job);
static __attribute__((noinline)) int descend_b(int depth, struct job *job)
{
    char buffer[96];
    __asm__ volatile("" ::"r"(buffer) : "memory");
    int got = depth ? descend_a(depth - 1, job) : (measure(job), 0);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    return got + buffer[0] * 0;
}

static __attribute__((noinline)) int descend_a(int depth, struct job *job)
{
    int got = depth ? descend_b(depth - 1, job) : (measure(job), 0);
    __asm__ volatile("" ::: "memory");
    return got;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    if (rounds <= 0 || pthread_getattr_np(pthread_self(), &attributes))
        return 2;
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    stack = (struct tide_unwind_stack){.low = (uintptr_t)low, .high = (uintptr_t)low + bytes};
    tide_object_init();
    tide_unwind_init();
    void *library = dlopen("libunwind.so.8", RTLD_NOW);
    if (library)
        *(void **)&unw_backtrace = dlsym(library, "unw_backtrace");
    struct {
        const char *name;
        int (*walk)(void);
    } candidates[] = {{"libgcc _Unwind_Backtrace", by_libgcc},
                      {"glibc backtrace", by_backtrace},
                      {"libunwind unw_backtrace", unw_backtrace ? by_libunwind : NULL},
                      {"hook: cached rules", by_tables}};
    static const int depths[] = {8, 14, 20, 40};
    printf("%-26s %8s %8s %12s %12s\n", "unwinder", "calls", "frames", "ns/stack", "ns/frame");
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        for (size_t d = 0; candidates[i].walk && d < sizeof depths / sizeof *depths; d++) {
            struct job job = {.walk = candidates[i].walk, .rounds = rounds};
            descend_a(depths[d], &job);
            printf("%-26s %8d %8d %12.0f %12.1f\n", candidates[i].name, depths[d], job.frames, job.ns,
                   job.ns / job.frames);
        }
    return 0;
}
