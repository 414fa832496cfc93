/*
 * segment.c - shared memory that a parent and its four workers all map: 8 MiB, and --bytes more with each
 * step.
 *
 * Truth: leak, linear, --bytes (64K) per step, of shared memory; a fifth of it is each process's. With
 * --bytes 0 all is flat.
 */
#include "workload.h"

#include <signal.h>

enum { WORKERS = 4, KEPT = 8 << 20 };

static void use(int fd, int64_t from, int64_t bytes)
{
    if (bytes == 0)
        return;
    unsigned char *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, from);
    if (memory == MAP_FAILED)
        workload_fail("mmap");
    workload_touch(memory, (size_t)bytes);
}

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024};
    workload_init(&w, argc, argv);
    workload_sign(&w);
    int fd = memfd_create("segment", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, KEPT + w.steps * w.bytes) != 0)
        workload_fail("memfd_create");
    bool parent = true;
    for (int i = 0; i < WORKERS && parent; i++) {
        pid_t pid = fork();
        if (pid < 0)
            workload_fail("fork");
        parent = pid > 0;
    }
    if (!parent)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    use(fd, 0, KEPT);
    for (int64_t n = 0; n < w.steps; n++) {
        if (parent)
            workload_step(&w, n);
        use(fd, KEPT + n * w.bytes, w.bytes);
        workload_pace(&w, n);
    }
    return 0;
}
