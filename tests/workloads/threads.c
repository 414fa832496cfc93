/*
 * threads.c - several threads, one of which leaks.
 *
 * Truth: leak, linear, --bytes (64K) per step, in the process itself, which has --every (4) threads and the
 * main one. The main thread says the steps; every thread says a phase of its own.
 */
#include "workload.h"

#include <pthread.h>

struct crew {
    struct workload w;
    int64_t number;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct crew *me = argument;
    char name[32];
    snprintf(name, sizeof name, "thread %" PRId64, me->number);
    if (me->w.marks)
        tide_phase_begin(name);
    for (int64_t n = 0; n < me->w.steps; n++) {
        workload_churn(&me->w);
        if (me->number == 0)
            workload_map(me->w.bytes);
        workload_pace(&me->w, n);
    }
    if (me->w.marks)
        tide_phase_end(name);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MOST = 64 };
    struct workload w = {.bytes = 64 * 1024, .every = 4};
    workload_init(&w, argc, argv);
    mallopt(M_ARENA_MAX, 1);
    workload_sign(&w);
    workload_warm_heap(w.every);
    struct crew crew[MOST];
    for (int64_t i = 0; i < w.every && i < MOST; i++) {
        crew[i] = (struct crew){.w = w, .number = i};
        crew[i].w.random += (uint64_t)i;
        if (pthread_create(&crew[i].thread, NULL, work, &crew[i]))
            workload_fail("pthread_create");
    }
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_pace(&w, n);
    }
    for (int64_t i = 0; i < w.every && i < MOST; i++)
        pthread_join(crew[i].thread, NULL);
    return 0;
}
