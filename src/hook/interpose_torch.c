/*
 * interpose_torch.c - tensors in PyTorch's caching allocator of device memory.
 *
 * That allocator takes segments from the driver and serves tensors from them. So the code that asks the
 * driver for more is the code that ran when the last segment was full: often the backward pass, although
 * another line keeps the memory. The allocator reports each tensor that is allocated or freed to PyTorch's
 * profiler, through a function that libc10.so exports and that is called even if no profiler listens. The
 * preloaded library stands in front of it too, notes the report and passes it on. Every tensor is subtracted
 * from its segment, so what is left there is exact. Call stacks are walked for a sample of tensors only
 * (recorder.h).
 *
 * The name of a C++ function contains the types of its parameters, so a PyTorch that reports other things
 * calls another function. The allocator of cudaMallocAsync does not report and need not: there every tensor
 * is the driver's.
 */
#include "hook/object.h"
#include "hook/recorder.h"

#include <elf.h>
#include <link.h>

/* c10::reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, c10::Device) */
#define REPORT        _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)

struct device { /* c10::Device */
    int8_t type, index;
};

enum { TYPE_CUDA = 1 };

typedef void report_function(void *pointer, int64_t bytes, size_t allocated, size_t reserved,
                             struct device on);
__attribute__((visibility("default"))) report_function REPORT;

static void nobody(void *pointer, int64_t bytes, size_t allocated, size_t reserved, struct device on)
{
    (void)pointer, (void)bytes, (void)allocated, (void)reserved, (void)on;
}

/* Walks all objects, because dlsym() may not search the scope that the library is in. */
static int find_next(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct tide_object object;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            uintptr_t found = tide_object_find(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, &object)
                                  ? tide_object_symbol(&object, NAME_OF(REPORT), NULL)
                                  : 0;
            if (found && found != (uintptr_t)REPORT)
                *(uintptr_t *)context = found;
            return found && found != (uintptr_t)REPORT;
        }
    return 0;
}

static report_function *next(void)
{
    static report_function *_Atomic known;
    report_function *found = atomic_load_explicit(&known, memory_order_acquire);
    if (!found) {
        uintptr_t address = 0;
        dl_iterate_phdr(find_next, &address);
        found = address ? (report_function *)address : nobody;
        atomic_store_explicit(&known, found, memory_order_release);
    }
    return found;
}

void REPORT(void *pointer, int64_t bytes, size_t allocated, size_t reserved, struct device on)
{
    if (on.type == TYPE_CUDA && pointer && (uintptr_t)pointer < TIDE_POINTERS_POOL) {
        if (tide_pointers_page_may_hold((uintptr_t)pointer))
            tide_recorder_take(tide_pointers_pooled(pointer));
        tide_recorder_tensor_bytes((uintptr_t)pointer, bytes);
        if (bytes > 0 && tide_recorder_tensor_due((size_t)bytes))
            tide_recorder_allocated(TIDE_SITE_TENSOR, pointer, (size_t)bytes, TIDE_UNWIND_CALLER);
    }
    next()(pointer, bytes, allocated, reserved, on);
}
