/*
 * memfd.c - shared memory that nobody maps: each step makes a memfd, fills it and never closes it.
 *
 * Truth: leak, linear, --bytes (64K) per step, of shared memory; the process itself is flat.
 */
#include "workload.h"

#include <sys/resource.h>

int main(int argc, char **argv)
{
    struct workload w = {.bytes = 64 * 1024};
    struct rlimit files;
    workload_init(&w, argc, argv);
    workload_sign(&w);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int64_t n = 0; n < w.steps; n++) {
        workload_step(&w, n);
        int fd = memfd_create("batch", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, w.bytes) != 0)
            workload_fail("memfd_create");
        unsigned char *memory = mmap(NULL, (size_t)w.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED)
            workload_fail("mmap");
        workload_touch(memory, (size_t)w.bytes);
        munmap(memory, (size_t)w.bytes);
        workload_pace(&w, n);
    }
    return 0;
}
