/*
 * among.c - a leak of 1 KiB a step among thousands of busy call sites.
 *
 * Truth: `remember` keeps 1 KiB of every step. The --items sites (10,000) around it, each a path of its own
 * through a tree of calls, replace blocks of 64 B to 16 KiB all the time and keep one each: 40 MiB that do
 * not grow.
 */
#include "workload.h"

enum { DEPTH = 14, SITES_MOST = 1 << DEPTH, VISITS = 400, LEAKED = 1024 };

static unsigned char *held[SITES_MOST];
static unsigned char *volatile kept;

static void odd(struct workload *w, unsigned path, int depth);

static __attribute__((noinline)) void replace(struct workload *w, unsigned path)
{
    size_t bytes = 64 + workload_random(w) % (16 * 1024 - 64);
    free(held[path]);
    held[path] = malloc(bytes);
    if (!held[path])
        workload_fail("malloc");
    workload_touch(held[path], bytes);
}

/* A bit of the path is a choice between two calls. */
static __attribute__((noinline)) void even(struct workload *w, unsigned path, int depth)
{
    if (depth == DEPTH)
        replace(w, path);
    else if (path >> depth & 1)
        odd(w, path, depth + 1);
    else
        even(w, path, depth + 1);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void odd(struct workload *w, unsigned path, int depth)
{
    if (depth == DEPTH)
        replace(w, path);
    else if (path >> depth & 1)
        odd(w, path, depth + 1);
    else
        even(w, path, depth + 1);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void remember(void)
{
    kept = malloc(LEAKED);
    if (!kept)
        workload_fail("malloc");
    memset(kept, 1, LEAKED);
}

int main(int argc, char **argv)
{
    struct workload w = {.steps = 5000, .step_ms = 2, .items = 10000};
    workload_init(&w, argc, argv);
    if (w.items < 1 || w.items > SITES_MOST) {
        fprintf(stderr, "workload: '--items' is 1 to %d\n", SITES_MOST);
        return 2;
    }
    for (unsigned path = 0; path < w.items; path++)
        even(&w, path, 0);
    w.start_ns = workload_now_ns();
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        for (int i = 0; i < VISITS; i++)
            even(&w, (unsigned)(workload_random(&w) >> 20) % (unsigned)w.items, 0);
        remember();
        workload_pace(&w, n);
    }
    return 0;
}
