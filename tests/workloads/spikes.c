/*
 * spikes.c - validation that takes a lot of memory and gives all of it back.
 *
 * Truth: spikes, floor flat; every --every (50) steps, from step `every` on, --bytes (100M) more for
 * --hold-ms (300) once it is there, all of it inside phase "validation". Own option: --hold-ms M.
 */
#include "workload.h"

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 100 << 20, .every = 50, .hold_ms = 300};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    workload_map(32 << 20);
    workload_warm_heap(1);
    w.start_ns = workload_now_ns(); /* not behind at once: steps that nobody can look at are no beginning */
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        workload_churn(&w);
        if (n > 0 && n % w.every == 0) {
            int64_t began_ns = workload_now_ns();
            if (w.marks)
                tide_phase_begin("validation");
            unsigned char *memory = workload_map(w.bytes);
            workload_sleep_until(workload_now_ns() + w.hold_ms * 1000000);
            if (memory)
                munmap(memory, workload_pages(w.bytes));
            if (w.marks)
                tide_phase_end("validation");
            w.start_ns += workload_now_ns() - began_ns;
        }
        workload_pace(&w, n);
    }
    return 0;
}
