/*
 * views.c - a heap that its runtime maps three times, as Java's ZGC does: addresses for all of it are taken
 * at once, memory as it is needed. It is used through the first view for a third of the run, then through the
 * second, then through the third; a page counts in RSS once for each view that it was ever touched through.
 *
 * Truth: leak, linear, --bytes (64K) per step, in the process itself. With --bytes 0 it is flat: 24 MiB of
 * which each step touches a small part anew.
 */
#include "workload.h"

#include <fcntl.h>

enum { VIEWS = 3, HEAP = 24 << 20 };

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    int64_t size = HEAP + w.steps * w.bytes, turn = w.steps / VIEWS + 1;
    int fd = memfd_create("heap", MFD_CLOEXEC);
    unsigned char *views[VIEWS];
    if (fd < 0 || ftruncate(fd, size) != 0 || fallocate(fd, 0, 0, HEAP) != 0)
        workload_fail("memfd_create");
    for (int i = 0; i < VIEWS; i++) {
        views[i] = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (views[i] == MAP_FAILED)
            workload_fail("mmap");
    }
    workload_touch(views[0], HEAP);
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        unsigned char *view = views[n / turn];
        size_t part = workload_pages(HEAP / turn), from = (size_t)(n % turn) * part;
        workload_touch(view + (from + part <= HEAP ? from : HEAP - part), part);
        if (w.bytes && fallocate(fd, 0, HEAP + n * w.bytes, w.bytes) != 0)
            workload_fail("fallocate");
        workload_touch(view + HEAP + n * w.bytes, (size_t)w.bytes);
        workload_pace(&w, n);
    }
    return 0;
}
