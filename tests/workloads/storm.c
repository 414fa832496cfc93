/*
 * storm.c - many short-lived children: --every (10) per step, each takes --bytes (1M) and is gone at once.
 *
 * Truth: flat, in the process itself; 4,000 children came and went.
 */
#include "workload.h"

#include <sys/wait.h>

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 1 << 20, .every = 10};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_map(16 << 20);
    workload_warm_heap(1);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        for (int64_t i = 0; i < w.every; i++) {
            pid_t pid = fork();
            if (pid < 0)
                workload_fail("fork");
            if (pid == 0) {
                workload_map(w.bytes);
                _exit(0);
            }
        }
        while (wait(NULL) > 0)
            continue;
        workload_pace(&w, n);
    }
    return 0;
}
