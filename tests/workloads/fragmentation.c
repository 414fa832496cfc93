/*
 * fragmentation.c - what the program holds is constant, what the process holds is not.
 *
 * Every step takes bytes / 16K blocks of 16 KiB from the end of the heap and shrinks those of the step before
 * to 24 bytes each: between the small ones that stay are holes just too short for the next block. For each
 * small one that stays another is freed, from a stock made at the start, so that the live bytes (gauge
 * "live") never change.
 *
 * Truth: retention (a linear leak to whoever sees RSS alone), --bytes (256K) per step, in the process itself;
 * the gauge "live" is flat.
 */
#include "workload.h"

enum { BLOCK = 16 * 1024, REQUEST = BLOCK - 16, PIN = 24 };

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 256 * 1024};
    workload_init(&w, argc, argv);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    workload_sign(&w);
    size_t per_step = (size_t)w.bytes / BLOCK, stocked = per_step * (size_t)w.steps;
    void **stock = calloc(stocked + 1, sizeof *stock);
    unsigned char **young = calloc(per_step + 1, sizeof *young), **old = calloc(per_step + 1, sizeof *old);
    if (!stock || !young || !old || !per_step)
        workload_fail("--bytes must be 16K or more");
    for (size_t i = 0; i < stocked; i++)
        if (!(stock[i] = malloc(PIN)))
            workload_fail("malloc");
    int64_t live = (int64_t)(stocked * PIN);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        for (size_t i = 0; i < per_step; i++) {
            if (!(young[i] = malloc(REQUEST)))
                workload_fail("malloc");
            memset(young[i], (int)n + 1, REQUEST);
            live += REQUEST;
        }
        for (size_t i = 0; n > 0 && i < per_step; i++) {
            unsigned char *pin = realloc(old[i], PIN);
            if (pin != old[i])
                workload_fail("realloc moved a block that it was to shrink");
            free(stock[--stocked]);
            live -= REQUEST;
        }
        unsigned char **other = old;
        old = young;
        young = other;
        if (w.marks)
            tide_gauge("live", live);
        workload_pace(&w, n);
    }
    return 0;
}
