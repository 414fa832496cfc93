/*
 * flat.c - a steady program: churn and nothing kept.
 *
 * Truth: flat, in the process itself.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    struct workload w = {0};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_map(32 << 20);
    workload_warm_heap(1);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_churn(&w);
        workload_pace(&w, n);
    }
    return 0;
}
