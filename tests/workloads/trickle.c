/*
 * trickle.c - the smallest leak: 50 bytes an iteration, among blocks that come and go.
 *
 * Truth: `remember` keeps 50 bytes of every iteration; a step is --items (100) iterations. With a sample in
 * 512 KiB, one of about 10,500 of these blocks is seen.
 */
#include "workload.h"

enum { LEAKED = 50, WINDOW = 512 };

static unsigned char *volatile kept;
static unsigned char *window[WINDOW];

static __attribute__((noinline)) void remember(void)
{
    kept = malloc(LEAKED);
    if (!kept)
        workload_fail("malloc");
    memset(kept, 1, LEAKED);
}

static __attribute__((noinline)) void iterate(struct workload *w)
{
    uint64_t random = workload_random(w);
    unsigned char **place = &window[random % WINDOW];
    free(*place);
    *place = malloc(16 + (random >> 20) % 4000);
    if (!*place)
        workload_fail("malloc");
    **place = 1;
    remember();
    __asm__ volatile("" ::: "memory"); /* a frame of its own in the stack */
}

int main(int argc, char **argv)
{
    struct workload w = {.steps = 2000, .step_ms = 2, .items = 100};
    workload_init(&w, argc, argv);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        for (int64_t i = 0; i < w.items; i++)
            iterate(&w);
        workload_pace(&w, n);
    }
    return 0;
}
