/*
 * fork.c - a pool of workers, one of which leaks; the parent, which says the steps, is flat.
 *
 * Truth: leak, linear, --bytes (64K) per step of the parent, in exactly one of the --every (4) children, the
 * second; the parent and the others are flat. The workers leave no marks.
 */
#include "workload.h"

#include <signal.h>
#include <sys/wait.h>

static void work(struct workload *w, bool leaks)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (leaks)
        workload_sign(w);
    workload_warm_heap(1);
    for (int64_t n = 0; n < w->steps; n++) {
        workload_churn(w);
        if (leaks)
            workload_map(w->bytes);
        workload_pace(w, n);
    }
}

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024, .every = 4};
    workload_init(&w, argc, argv);
    workload_map(32 << 20);
    workload_warm_heap(1);
    for (int64_t i = 0; i < w.every; i++) {
        pid_t pid = fork();
        if (pid < 0)
            workload_fail("fork");
        if (pid == 0) {
            work(&w, i == 1 || w.every == 1);
            _exit(0);
        }
    }
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_churn(&w);
        workload_pace(&w, n);
    }
    while (wait(NULL) > 0)
        continue;
    return 0;
}
