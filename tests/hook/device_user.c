/*
 * device_user.c - takes memory from a CUDA driver (tests/fake/fake_cuda.c), to be watched by the hook.
 *
 *     device_user WAY MODE [N]
 *
 * WAY: direct (linked with the driver: built with -DDIRECT), dlsym, proc1 (cuGetProcAddress), proc2
 * (cuGetProcAddress_v2), static (as CUDA's static run-time library does it), streams (the same for streams
 * that are each thread's own), next (found after the hook, with RTLD_NEXT). Prints what the driver says is in
 * use at the end. Exits with 1 when the driver does not do what it should.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * KIB, PIECE = 2 * MIB, THREADS = 8, ROUNDS = 2000 };

typedef int get_v1(const char *, void **, int, uint64_t);
typedef int get_v2(const char *, void **, int, uint64_t, int *);

/* Field, name in the library, name and version for cuGetProcAddress, name for each thread's own streams. */
#define FUNCTIONS(X)                                                                                         \
    X(init, (unsigned), cuInit, cuInit, 2000, cuInit)                                                        \
    X(take, (uint64_t *, size_t), cuMemAlloc_v2, cuMemAlloc, 3020, cuMemAlloc_v2)                            \
    X(take_rows, (uint64_t *, size_t *, size_t, size_t, unsigned), cuMemAllocPitch_v2, cuMemAllocPitch,      \
      3020, cuMemAllocPitch_v2)                                                                              \
    X(take_managed, (uint64_t *, size_t, unsigned), cuMemAllocManaged, cuMemAllocManaged, 6000,              \
      cuMemAllocManaged)                                                                                     \
    X(take_async, (uint64_t *, size_t, void *), cuMemAllocAsync, cuMemAllocAsync, 11020,                     \
      cuMemAllocAsync_ptsz)                                                                                  \
    X(take_pooled, (uint64_t *, size_t, void *, void *), cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync,   \
      11020, cuMemAllocFromPoolAsync_ptsz)                                                                   \
    X(give, (uint64_t), cuMemFree_v2, cuMemFree, 3020, cuMemFree_v2)                                         \
    X(give_async, (uint64_t, void *), cuMemFreeAsync, cuMemFreeAsync, 11020, cuMemFreeAsync_ptsz)            \
    X(pin, (void **, size_t, unsigned), cuMemHostAlloc, cuMemHostAlloc, 2020, cuMemHostAlloc)                \
    X(pin_simply, (void **, size_t), cuMemAllocHost_v2, cuMemAllocHost, 3020, cuMemAllocHost_v2)             \
    X(unpin, (void *), cuMemFreeHost, cuMemFreeHost, 2000, cuMemFreeHost)                                    \
    X(reserve, (uint64_t *, size_t, size_t, uint64_t, unsigned long long), cuMemAddressReserve,              \
      cuMemAddressReserve, 10020, cuMemAddressReserve)                                                       \
    X(create, (uint64_t *, size_t, const void *, unsigned long long), cuMemCreate, cuMemCreate, 10020,       \
      cuMemCreate)                                                                                           \
    X(release, (uint64_t), cuMemRelease, cuMemRelease, 10020, cuMemRelease)                                  \
    X(map, (uint64_t, size_t, size_t, uint64_t, unsigned long long), cuMemMap, cuMemMap, 10020, cuMemMap)    \
    X(unmap, (uint64_t, size_t), cuMemUnmap, cuMemUnmap, 10020, cuMemUnmap)                                  \
    X(retain, (uint64_t *, void *), cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000,         \
      cuMemRetainAllocationHandle)

#define FIELD(field, parameters, name, asked, version, own) int(*field) parameters;
static struct {
    FUNCTIONS(FIELD)
} driver;
static uint64_t (*in_use)(void);

__attribute__((noinline)) static void expect(int condition, const char *sentence)
{
    if (!condition) {
        fprintf(stderr, "not so: %s\n", sentence);
        _exit(1);
    }
}

/* ---- ways to the driver */

#ifdef DIRECT
#define PROTOTYPE(field, parameters, name, asked, version, own) int name parameters;
FUNCTIONS(PROTOTYPE)
uint64_t fake_cuda_used(void);

static void *reach(const char *way)
{
    expect(!strcmp(way, "direct"), "linked with the driver");
#define LINK(field, parameters, name, asked, version, own) driver.field = name;
    FUNCTIONS(LINK)
    in_use = fake_cuda_used;
    return NULL;
}

#else

static void ask(void *library, const char *way)
{
    get_v1 *first;
    get_v2 *second;
    int status;
    uint64_t flags = strcmp(way, "streams") ? 0 : 2;
    *(void **)&first = dlsym(library, "cuGetProcAddress");
    *(void **)&second = dlsym(library, "cuGetProcAddress_v2");
    expect(first && second, "the driver has cuGetProcAddress");
    if (!strcmp(way, "static") || flags) {
        void *nothing;
        second("", &nothing, 0, 0, &status);
        expect(!second("cuGetProcAddress", (void **)&first, 11030, 0, &status), "the old one is given");
        expect(!second("cuGetProcAddress", (void **)&second, 12000, 0, &status), "and the new one");
    }
#define ASK(field, parameters, name, asked, version, own)                                                    \
    expect(!(strcmp(way, "proc1") ? second(#asked, (void **)&driver.field, version, flags, &status)          \
                                  : first(#asked, (void **)&driver.field, version, flags)),                  \
           #asked " is given");
    FUNCTIONS(ASK)
    void *old = NULL;
    expect(!second("cuMemAlloc", &old, 2000, 0, &status) && old != (void *)driver.take,
           "an old version of a function is another function");
}

static void *reach(const char *way)
{
    void *library = dlopen("libcuda.so.1", strcmp(way, "next") ? RTLD_NOW : RTLD_NOW | RTLD_GLOBAL);
    expect(library != NULL, "the driver is found");
    *(void **)&in_use = dlsym(library, "fake_cuda_used");
#define FIND(field, parameters, name, asked, version, own)                                                   \
    *(void **)&driver.field = dlsym(strcmp(way, "next") ? library : RTLD_NEXT, #name);                       \
    expect(driver.field != NULL, #name " is found");
    if (!strcmp(way, "dlsym") || !strcmp(way, "next")) {
        FUNCTIONS(FIND)
    } else {
        ask(library, way);
    }
    expect(!dlsym(library, "cuNoSuchThing") && dlerror(), "what is not there is not found");
    return library;
}
#endif

/* ---- what is done with it */

__attribute__((noinline)) void device_leak(size_t bytes)
{
    uint64_t pointer = 0;
    expect(!driver.take(&pointer, bytes), "memory is given");
    __asm__ volatile("");
}

__attribute__((noinline)) static void leak(int rounds)
{
    for (int i = 0; i < rounds; i++)
        device_leak(MIB);
}

/* One of each, and half of them given back in ways that cross. */
static void mix(void)
{
    uint64_t p[6] = {0};
    size_t pitch = 0;
    void *pinned[2] = {NULL};
    expect(!driver.take(&p[0], 3 * KIB) && !driver.take_rows(&p[1], &pitch, 1000, 100, 4) &&
               !driver.take_managed(&p[2], 5 * MIB, 1) && !driver.take_async(&p[3], 7 * MIB, NULL) &&
               !driver.take_pooled(&p[4], 11 * MIB, NULL, NULL) && !driver.take_async(&p[5], 13 * MIB, NULL),
           "memory is given in every way");
    expect(!driver.pin(&pinned[0], 17 * MIB, 0) && !driver.pin_simply(&pinned[1], 19 * MIB), "and pinned");
    memset(pinned[0], 1, 17 * MIB);
    expect(!driver.give(p[4]) && !driver.give_async(p[2], NULL) && !driver.give(0) &&
               !driver.unpin(pinned[1]),
           "and given back");
}

static void refuse(void)
{
    uint64_t p = 0, other = 0;
    size_t pitch = 0;
    expect(!driver.take(&p, 600 * MIB), "there is room for the first");
    expect(driver.take(&other, 600 * MIB) && driver.take_async(&other, 600 * MIB, NULL) &&
               driver.take_rows(&other, &pitch, MIB, 600, 4) && driver.create(&other, 1000 * MIB, NULL, 0),
           "and none for the second");
    expect(driver.give(p + 512) && driver.give(12345) && driver.give_async(12345, NULL) &&
               driver.unpin(&other) && driver.release(77) && driver.unmap(p, 4096),
           "what is not its own is refused");
    expect(!driver.give(p) && driver.give(p), "nothing is freed twice");
    expect(!driver.take(&p, 100 * MIB), "and it goes on");
}

static void virtual_memory(void)
{
    static const int properties[8] = {1, 0, 1, 0}; /* pinned, on device 0 */
    uint64_t at = 0, kept = 0, mapped = 0, twice = 0, gone = 0, again = 0;
    expect(!driver.reserve(&at, 64 * PIECE, 0, 0, 0), "addresses are given");
    expect(!driver.create(&kept, PIECE, properties, 0) && !driver.create(&mapped, 3 * PIECE, properties, 0) &&
               !driver.create(&twice, PIECE, properties, 0) &&
               !driver.create(&gone, 8 * PIECE, properties, 0),
           "pieces are made");
    expect(!driver.map(at, 3 * PIECE, 0, mapped, 0) && !driver.map(at + 3 * PIECE, PIECE, 0, twice, 0) &&
               !driver.map(at + 8 * PIECE, PIECE, 0, twice, 0) &&
               !driver.map(at + 4 * PIECE, 2 * PIECE, 0, gone, 0),
           "and mapped");
    expect(!driver.release(mapped) && !driver.release(twice) && !driver.release(gone),
           "their handles are let go");
    expect(driver.unmap(at + 4 * PIECE, PIECE), "a mapping is not cut");
    expect(!driver.retain(&again, (void *)(uintptr_t)(at + 5 * PIECE)) && !driver.release(again),
           "an address gives a handle");
    /* two neighbours at once: `twice` is still mapped elsewhere, `gone` is no more */
    expect(!driver.unmap(at + 3 * PIECE, 3 * PIECE), "two mappings go at once");
}

static void *run_thread(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument;
    uint64_t held[16] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1664525 + 1013904223;
        unsigned n = state >> 28;
        if (held[n])
            expect(!(i & 1 ? driver.give(held[n]) : driver.give_async(held[n], NULL)), "it is given back");
        held[n] = 0;
        if (state >> 20 & 1)
            expect(!driver.take_async(&held[n], 4096 * (1 + (state >> 12 & 7)), NULL), "there is room");
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        expect(!pthread_create(&thread[i], NULL, run_thread, (void *)(i + 1)), "a thread starts");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* The child has a copy of the driver's account, and starts one of its own in the table. */
static void forked(void)
{
    uint64_t before = 0;
    int status;
    expect(!driver.take(&before, MIB), "memory is given");
    pid_t child = fork();
    if (child == 0) {
        expect(!driver.give(before), "what was inherited is given back");
        device_leak(3 * MIB);
        exit(0);
    }
    expect(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
}

/* Loaded, unloaded, and loaded again: perhaps elsewhere. */
static void reload(void *library)
{
    device_leak(MIB);
    expect(library && !dlclose(library), "the driver is unloaded");
    reach("dlsym");
    expect(!driver.init(0), "it starts again");
    device_leak(MIB);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[2] : "";
    void *library = reach(argc > 1 ? argv[1] : "");
    expect(!driver.init(0), "the driver starts");
    if (!strcmp(mode, "leak"))
        leak(argc > 3 ? atoi(argv[3]) : 10);
    else if (!strcmp(mode, "mix"))
        mix();
    else if (!strcmp(mode, "refuse"))
        refuse();
    else if (!strcmp(mode, "virtual"))
        virtual_memory();
    else if (!strcmp(mode, "threads"))
        threads();
    else if (!strcmp(mode, "fork"))
        forked();
    else if (!strcmp(mode, "reload"))
        reload(library);
    else
        expect(0, "the mode is known");
    printf("%llu\n", (unsigned long long)in_use());
    return 0;
}
