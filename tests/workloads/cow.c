/*
 * cow.c - a worker that inherits a heap and writes to a little more of it at every step, as reference counts
 * do in forked Python workers.
 *
 * Truth: leak, linear, --bytes (256K) per step for the tree counted once (PSS), though RSS of both processes
 * is flat: each page written stops being shared, so the worker's USS and the parent's grow by --bytes per
 * step, and the PSS of each by half of that. The heap is steps * bytes (100 MiB), so that it lasts to the end
 * and no longer: what reading PSS costs depends on it. The parent says the steps.
 */
#include "workload.h"

#include <signal.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 256 * 1024};
    workload_init(&w, argc, argv);
    unsigned char *heap = workload_map(w.steps * w.bytes);
    pid_t pid = fork();
    if (pid < 0)
        workload_fail("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        workload_sign(&w);
        for (int64_t n = 0; n < w.steps; n++) {
            workload_touch(heap + n * w.bytes, (size_t)w.bytes);
            workload_pace(&w, n);
        }
        _exit(0);
    }
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_pace(&w, n);
    }
    while (wait(NULL) > 0)
        continue;
    return 0;
}
