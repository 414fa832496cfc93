// device_steps.cu - takes memory through CUDA's static run-time library: device_steps leak|virtual|cost [N]
//
// leak keeps 8 MiB a step; virtual makes, maps and unmaps pieces of 4 MiB and keeps every second one; cost times pairs of
// allocating and freeing. Steps are told on stdout. Build with: nvcc -cudart static -g -o device_steps device_steps.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

static void expect(bool condition, const char *sentence)
{
    if (!condition) {
        fprintf(stderr, "not so: %s (%s)\n", sentence, cudaGetErrorString(cudaGetLastError()));
        exit(1);
    }
}

__attribute__((noinline)) static void keep_device_memory(size_t bytes)
{
    void *p = nullptr;
    expect(cudaMalloc(&p, bytes) == cudaSuccess, "memory is given"); // the leak
    asm volatile("" ::"r"(p));
}

static void leak(int steps)
{
    for (int i = 0; i < steps; i++) {
        printf("step %d\n", i);
        fflush(stdout);
        keep_device_memory(8 << 20);
        void *p, *pinned;
        expect(cudaMalloc(&p, 64 << 20) == cudaSuccess && cudaFree(p) == cudaSuccess, "and given back");
        expect(cudaMallocHost(&pinned, 4 << 20) == cudaSuccess && cudaFreeHost(pinned) == cudaSuccess, "pinned too");
        usleep(50000);
    }
}

template <class F> static F entry(const char *name)
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult how;
    expect(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how) == cudaSuccess && found, name);
    return (F)found;
}

__attribute__((noinline)) static CUmemGenericAllocationHandle make_piece(size_t bytes)
{
    static auto create = entry<decltype(&cuMemCreate)>("cuMemCreate");
    CUmemAllocationProp properties;
    CUmemGenericAllocationHandle handle = 0;
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    expect(create(&handle, bytes, &properties, 0) == CUDA_SUCCESS, "a piece is made"); // the leak of virtual memory
    return handle;
}

static void virtual_memory(int steps)
{
    const size_t piece = 4 << 20;
    auto reserve = entry<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
    auto map = entry<decltype(&cuMemMap)>("cuMemMap");
    auto unmap = entry<decltype(&cuMemUnmap)>("cuMemUnmap");
    auto release = entry<decltype(&cuMemRelease)>("cuMemRelease");
    CUdeviceptr at;
    expect(cudaFree(nullptr) == cudaSuccess && reserve(&at, steps * piece, 0, 0, 0) == CUDA_SUCCESS, "addresses are given");
    for (int i = 0; i < steps; i++) {
        printf("step %d\n", i);
        fflush(stdout);
        CUmemGenericAllocationHandle handle = make_piece(piece);
        expect(map(at + i * piece, piece, 0, handle, 0) == CUDA_SUCCESS && release(handle) == CUDA_SUCCESS, "and mapped");
        if (i % 2)
            expect(unmap(at + i * piece, piece) == CUDA_SUCCESS, "and unmapped");
        usleep(50000);
    }
}

static double since(std::chrono::steady_clock::time_point began, int pairs)
{
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count() / pairs;
}

static void cost(int pairs)
{
    void *p;
    for (int round = 0; round < 2; round++) { // the first is to warm up
        auto began = std::chrono::steady_clock::now();
        for (int i = 0; i < pairs; i++)
            expect(cudaMallocAsync(&p, 1 << 20, 0) == cudaSuccess && cudaFreeAsync(p, 0) == cudaSuccess, "async");
        double async = since(began, pairs);
        expect(cudaDeviceSynchronize() == cudaSuccess, "it is done");
        began = std::chrono::steady_clock::now();
        for (int i = 0; i < pairs / 10; i++)
            expect(cudaMalloc(&p, 4 << 20) == cudaSuccess && cudaFree(p) == cudaSuccess, "not async");
        if (round)
            printf("{\"async_ns\": %.0f, \"sync_ns\": %.0f}\n", async, since(began, pairs / 10));
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 200;
    if (!strcmp(mode, "leak"))
        leak(n);
    else if (!strcmp(mode, "virtual"))
        virtual_memory(n);
    else
        cost(n);
    return 0;
}
