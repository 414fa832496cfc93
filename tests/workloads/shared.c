/*
 * shared.c - shared memory that the process has for itself: each step maps a batch, which takes the place of
 * the one before, and --bytes that stay mapped.
 *
 * Truth: leak, linear, --bytes (64K) per step, in the process itself; with --bytes 0 it is flat.
 */
#include "workload.h"

enum { BATCH = 1 << 20 };

static unsigned char *map_shared(size_t bytes)
{
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        workload_fail("mmap");
    workload_touch(memory, bytes);
    return memory;
}

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    unsigned char *batch = map_shared(BATCH);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        unsigned char *next = map_shared(BATCH);
        munmap(batch, BATCH);
        batch = next;
        if (w.bytes)
            map_shared((size_t)w.bytes);
        workload_pace(&w, n);
    }
    return 0;
}
