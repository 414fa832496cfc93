/*
 * cache.c - a data set that keeps what it decoded: grows for one pass over the data, then stops.
 *
 * Truth: plateau, knee at step items / per-step (1000 / 5 = 200), --bytes (64K) per item, ceiling items *
 * bytes above the start (62.5 MiB), in the process itself. Says items seen. Own options: --items N,
 * --per-step K.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024, .items = 1000, .per_step = 5};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_warm_heap(1);
    int64_t seen = 0;
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_churn(&w);
        for (int64_t i = 0; i < w.per_step; i++, seen++)
            if (seen < w.items)
                workload_map(w.bytes);
        if (w.marks)
            tide_items(seen);
        workload_pace(&w, n);
    }
    return 0;
}
