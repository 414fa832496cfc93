/*
 * staircase.c - leaks once per epoch: per-epoch statistics that are never dropped.
 *
 * Truth: leak, staircase, --bytes (2M) per epoch of --every (50) steps, so bytes / every per step (41,943),
 * in the process itself. The first stair is taken at step `every`. Says epochs.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 2 << 20, .every = 50};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_warm_heap(1);
    for (int64_t n = 0; n < w.steps; n++) {
        if (n % w.every == 0) {
            if (n > 0)
                workload_map(w.bytes);
            if (w.marks)
                tide_epoch(n / w.every);
            if (w.talk)
                printf("Epoch %" PRId64 "\n", n / w.every);
        }
        workload_step(&w, n);
        workload_churn(&w);
        workload_pace(&w, n);
    }
    return 0;
}
