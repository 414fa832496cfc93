/*
 * gpu_probe.c - on a machine with an NVIDIA GPU: says what NVML says, takes device memory itself through the
 * CUDA driver, and checks that the tree's GPU readings follow it.
 *
 *     tests/gpu/run            builds and runs it
 *
 * Needs the driver alone: libnvidia-ml.so.1 and libcuda.so.1. Exit 0: all checks held; 1: one did not; 77: no
 * GPU here.
 */
#include "base/clock.h"
#include "sense/gpu.h"
#include "sense/nvml.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_GPU = 77, STEP_BYTES = 256 << 20, STEPS = 3 };

static int failures;

static void check(bool condition, const char *sentence)
{
    printf("%s: %s\n", condition ? "ok" : "FAILED", sentence);
    failures += !condition;
}

/* In the child: a context, then STEP_BYTES more each time a byte comes in; says so with a byte out. */
static void use_gpu(int in, int out)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*set)(void *);
    int (*take)(uint64_t *, size_t);
    if (!cuda)
        _exit(NO_GPU);
    *(void **)&init = dlsym(cuda, "cuInit");
    *(void **)&get = dlsym(cuda, "cuDeviceGet");
    *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(cuda, "cuCtxSetCurrent");
    *(void **)&take = dlsym(cuda, "cuMemAlloc_v2");
    int device;
    void *context;
    uint64_t memory;
    char byte;
    if (init(0) || get(&device, 0) || retain(&context, device) || set(context))
        _exit(NO_GPU);
    while (write(out, "", 1) == 1 && read(in, &byte, 1) == 1)
        if (take(&memory, STEP_BYTES))
            _exit(1);
    _exit(0);
}

static void print_devices(struct tide_nvml *nvml)
{
    for (size_t i = 0; i < tide_nvml_count(nvml); i++) {
        struct tide_nvml_device device;
        const struct tide_nvml_process *processes;
        int64_t used = 0, total = 0;
        size_t count = 0;
        int64_t began_ns = tide_clock_ns();
        tide_nvml_describe(nvml, i, &device);
        int memory_code = tide_nvml_memory(nvml, i, &used, &total);
        int list_code = tide_nvml_processes(nvml, i, &processes, &count);
        printf("device %zu: %s %s /dev/nvidia%" PRId64 ": %" PRId64 " of %" PRId64
               " bytes used, %zu processes (codes %d, %d; %" PRId64 " us)\n",
               i, device.name, device.uuid, device.minor, used, total, count, memory_code, list_code,
               (tide_clock_ns() - began_ns) / 1000);
        for (size_t j = 0; j < count; j++)
            printf("  pid %" PRId64 ": %" PRId64 " bytes%s\n", processes[j].pid, processes[j].bytes,
                   kill((pid_t)processes[j].pid, 0) == 0 ? "" : " (no such process here)");
    }
}

/* Bytes of the child by the tree's eyes. */
static int64_t look(struct tide_gpu *gpu, struct tide_tree *tree, int64_t pid)
{
    struct tide_gpu_view view;
    struct timespec second = {1, 0};
    int64_t bytes = TIDE_UNKNOWN;
    nanosleep(&second, NULL); /* the pause that the driver is left in peace */
    int64_t now_ns = tide_clock_ns();
    tide_tree_scan(tree, now_ns, NULL);
    tide_tree_read(tree, now_ns);
    tide_gpu_look(gpu, tree, now_ns, &view);
    for (size_t i = 0; i < view.reading_count; i++) {
        const struct tide_gpu_reading *reading = &view.readings[i];
        printf("  device %" PRId64 " %s %" PRId64 ": %" PRId64 " bytes\n", reading->device,
               reading->member  ? "member"
               : reading->whole ? "whole device"
                                : "not told",
               reading->member ? reading->member->pid : 0, reading->bytes);
        if (reading->member && reading->member->pid == pid && reading->device == 0)
            bytes = reading->bytes;
    }
    if (view.note)
        printf("  note: %s\n", view.note);
    return bytes;
}

int main(void)
{
    int64_t began_ns = tide_clock_ns();
    struct tide_nvml *nvml = tide_nvml_new();
    printf("NVML %s after %" PRId64 " ms\n", nvml ? "loaded" : "not there",
           (tide_clock_ns() - began_ns) / 1000000);
    if (!nvml)
        return NO_GPU;
    print_devices(nvml);

    int in[2], out[2], status;
    char byte;
    if (pipe(in) != 0 || pipe(out) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        close(in[1]);
        close(out[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        use_gpu(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    if (read(out[0], &byte, 1) != 1) {
        waitpid(child, &status, 0);
        printf("the CUDA driver would not start\n");
        return NO_GPU;
    }
    print_devices(nvml);

    struct tide_tree tree;
    struct tide_err err = {.text = ""};
    struct tide_gpu *gpu = tide_gpu_new();
    if (tide_tree_init(&tree, "/proc", false, &err) != 0 ||
        tide_tree_add_root(&tree, child, tide_clock_ns(), &err) != 0) {
        printf("%s\n", err.text);
        return 1;
    }
    tide_gpu_settle(gpu);
    int64_t before = look(gpu, &tree, child);
    check(before > 0, "the child's context is seen as the child's");
    for (int i = 0; i < STEPS; i++) {
        if (write(in[1], "", 1) != 1 || read(out[0], &byte, 1) != 1)
            return 1;
        int64_t now = look(gpu, &tree, child);
        check(now - before == STEP_BYTES, "256 MiB more are seen as 256 MiB more");
        before = now;
    }
    close(in[1]);
    waitpid(child, &status, 0);
    check(look(gpu, &tree, child) == TIDE_UNKNOWN, "after its end it has none");
    tide_gpu_free(gpu);
    tide_tree_release(&tree);
    tide_nvml_free(nvml);
    return failures ? 1 : 0;
}
