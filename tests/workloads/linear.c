/*
 * linear.c - the plain leak, under realistic churn.
 *
 * Truth: leak, linear, --bytes (64K) per step, in the process itself, from step 0 on.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_warm_heap(1);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_churn(&w);
        workload_map(w.bytes);
        workload_pace(&w, n);
    }
    return 0;
}
