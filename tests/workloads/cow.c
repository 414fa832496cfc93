/*
 * cow.c - a worker that inherits a big heap and writes to a little more of it at every step, as reference
 * counts do in forked Python workers.
 *
 * Truth: leak, linear, --bytes (256K) per step for the tree counted once (PSS), though RSS of both processes
 * is flat: each page written stops being shared, so the worker's USS and the parent's grow by --bytes per
 * step, and the PSS of each by half of that. Ends when the inherited heap (128 MiB) is used up, after 512
 * steps by default. The parent says the steps.
 */
#include "workload.h"

#include <signal.h>
#include <sys/wait.h>

enum { HEAP = 128 << 20 };

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 256 * 1024};
    workload_init(&w, argc, argv);
    unsigned char *heap = workload_map(HEAP);
    pid_t pid = fork();
    if (pid < 0)
        workload_fail("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        workload_sign(&w);
        int64_t written = 0;
        for (int64_t n = 0; n < w.steps; n++) {
            if (written + w.bytes <= HEAP)
                workload_touch(heap + written, (size_t)w.bytes);
            written += w.bytes;
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
