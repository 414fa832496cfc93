/*
 * accelerating.c - a history that is copied whole at every step: the leak itself grows.
 *
 * Truth: leak, accelerating, in the process itself: (n + 1)^2 / steps * bytes held after step n, to the page,
 * so
 * --bytes (128K) per step on average and twice that at the end.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 128 * 1024};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_warm_heap(1);
    int64_t page = sysconf(_SC_PAGESIZE), held = 0;
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_churn(&w);
        double share = (double)(n + 1) * (double)(n + 1) / (double)w.steps;
        int64_t due = (int64_t)(share * (double)w.bytes) / page * page;
        workload_map(due - held);
        held = due;
        workload_pace(&w, n);
    }
    return 0;
}
