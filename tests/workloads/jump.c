/*
 * jump.c - one lasting allocation at a schedule boundary.
 *
 * Truth: jump of --bytes (64M) at step --every (200), flat before and after, in the process itself; the phase
 * "stage 2" begins at that step.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 << 20, .every = 200};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_map(32 << 20);
    workload_warm_heap(1);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_churn(&w);
        if (n == w.every) {
            int64_t began_ns = workload_now_ns();
            if (w.marks)
                tide_phase_begin("stage 2");
            workload_map(w.bytes);
            w.start_ns +=
                workload_now_ns() - began_ns; /* steps after it take their time, however long it took */
        }
        workload_pace(&w, n);
    }
    return 0;
}
