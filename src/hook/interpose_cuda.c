/*
 * interpose_cuda.c - in front of the functions of libcuda.so.1 that allocate and free memory, and of the
 * three ways to get at them.
 *
 * Programs that link with the driver find our functions by name, as with malloc. The CUDA run-time library,
 * static or not, opens the driver itself, asks dlsym() for cuGetProcAddress, and asks that for everything
 * else. So we replace both. If the answer is the address of one of these functions in the driver, we return
 * ours instead. Nothing in the driver's own code or data is changed, and an unknown answer is passed on as it
 * is:
 *
 * - An answer is recognised by its address alone, from the driver's own symbol table. So a version of a
 *   function that we do not know, which may have other parameters, is never mistaken for one that we do.
 * - dlsym() is a few instructions that end in a jump, so that the C library sees the program as its caller
 *   (the meaning of RTLD_NEXT depends on it). Only names that begin with "cu", asked of a certain library,
 *   reach C code.
 * - The driver itself always gets what it asks for. Otherwise a driver that forwards to another one would
 *   come back here for ever.
 * - Nothing is replaced without recording, with a driver that lacks what every driver has, or for a second
 *   driver; the head of the table says so.
 *
 * Not seen: functions from the driver's private tables (cuGetExportTable), memory nodes of graphs, memory
 * that other processes share with this one, and what the driver needs for itself.
 */
#include "hook/interpose_cuda.h"
#include "hook/object.h"
#include "hook/recorder.h"
#include "hook/latch.h"

#include <dlfcn.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#define DRIVER "libcuda.so" /* how the file names of the driver begin */

enum { NOT_INITIALIZED = 3 };    /* CUDA_ERROR_NOT_INITIALIZED */
enum { LOCATION_DEVICE = 1 };    /* CU_MEM_LOCATION_TYPE_DEVICE */
typedef uint64_t device_pointer; /* CUdeviceptr */
typedef uint64_t generic_handle; /* CUmemGenericAllocationHandle */
typedef void *stream;            /* CUstream */
struct allocation_properties {   /* CUmemAllocationProp, the part that is read */
    int type, handle_types, location_type, location;
};

/* Name, parameters. The first ones are in every driver that has UVA (CUDA 4). */
#define FUNCTIONS(X)                                                                                         \
    X(cuMemAlloc_v2, (device_pointer * ret, size_t bytes))                                                   \
    X(cuMemFree_v2, (device_pointer pointer))                                                                \
    X(cuMemAllocPitch_v2,                                                                                    \
      (device_pointer * ret, size_t * ret_pitch, size_t width, size_t height, unsigned element))             \
    X(cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags))                                            \
    X(cuMemFreeHost, (void *pointer))                                                                        \
    X(cuMemAllocHost_v2, (void **ret, size_t bytes))                                                         \
    X(cuMemAllocManaged, (device_pointer * ret, size_t bytes, unsigned flags))                               \
    X(cuMemAllocAsync, (device_pointer * ret, size_t bytes, stream on))                                      \
    X(cuMemAllocAsync_ptsz, (device_pointer * ret, size_t bytes, stream on))                                 \
    X(cuMemAllocFromPoolAsync, (device_pointer * ret, size_t bytes, void *pool, stream on))                  \
    X(cuMemAllocFromPoolAsync_ptsz, (device_pointer * ret, size_t bytes, void *pool, stream on))             \
    X(cuMemFreeAsync, (device_pointer pointer, stream on))                                                   \
    X(cuMemFreeAsync_ptsz, (device_pointer pointer, stream on))                                              \
    X(cuMemCreate, (generic_handle * ret, size_t bytes, const struct allocation_properties *properties,      \
                    unsigned long long flags))                                                               \
    X(cuMemRelease, (generic_handle handle))                                                                 \
    X(cuMemRetainAllocationHandle, (generic_handle * ret, void *address))                                    \
    X(cuMemMap, (device_pointer pointer, size_t bytes, size_t offset, generic_handle handle,                 \
                 unsigned long long flags))                                                                  \
    X(cuMemUnmap, (device_pointer pointer, size_t bytes))                                                    \
    X(cuGetProcAddress, (const char *name, void **ret, int version, uint64_t flags))                         \
    X(cuGetProcAddress_v2, (const char *name, void **ret, int version, uint64_t flags, int *ret_status))

#define NUMBER(name, parameters)  AT_##name,
#define DECLARE(name, parameters) EXPORT int name parameters;
enum { FUNCTIONS(NUMBER) FUNCTION_COUNT, NEEDED = AT_cuMemFreeHost + 1 };
FUNCTIONS(DECLARE)

#define OURS(name, parameters) [AT_##name] = {#name, (void *)name},
static const struct {
    const char *name;
    void *address;
} ours[FUNCTION_COUNT] = {FUNCTIONS(OURS)};

/* The loaded driver. `start` is set last. */
static struct {
    _Atomic(void *) real[FUNCTION_COUNT]; /* NULL: not looked up yet, or the driver has none */
    _Atomic uintptr_t start;              /* of its library; 0: none */
    tide_latch learning;
} driver;

/* ---- the next dlsym() */

typedef void *find_symbol(void *handle, const char *name);

#ifdef __x86_64__

/* NULL: not known yet. */
__attribute__((visibility("hidden"))) extern find_symbol *_Atomic tide_next_dlsym;
find_symbol *_Atomic tide_next_dlsym;

/* Called from the assembly at the end. dlvsym() is not replaced, because the driver's symbols have no
 * versions. */
find_symbol *tide_find_dlsym(void);
__attribute__((used)) find_symbol *tide_find_dlsym(void)
{
    find_symbol *found;
    *(void **)&found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    atomic_store(&tide_next_dlsym, found);
    return found;
}

static void *next_dlsym(void *handle, const char *name)
{
    find_symbol *next = atomic_load(&tide_next_dlsym);
    if (!next)
        next = tide_find_dlsym();
    return next ? next(handle, name) : NULL;
}

#else

static void *next_dlsym(void *handle, const char *name)
{
    return dlsym(handle, name);
}

#endif

/* ---- the driver's functions */

/* True if the address is in the driver's library. */
static bool is_driver(uintptr_t address, struct tide_object *ret_object)
{
    if (!tide_object_find(address, ret_object))
        return false;
    const char *slash = strrchr(ret_object->path, '/'), *name = slash ? slash + 1 : ret_object->path;
    return !strncmp(name, DRIVER, sizeof DRIVER - 1);
}

static bool has_needed(const struct tide_object *object)
{
    for (int i = 0; i < NEEDED; i++)
        if (!tide_object_symbol(object, ours[i].name, NULL))
            return false;
    return true;
}

/* True if this is the driver whose functions are known. Learns them if no driver was known before. */
static bool is_learned(const struct tide_object *object)
{
    if (atomic_load_explicit(&driver.start, memory_order_acquire) == object->start)
        return true;
    if (!tide_latch_take(&driver.learning))
        return false;
    uintptr_t known = atomic_load(&driver.start);
    if (!known && has_needed(object)) {
        for (int i = 0; i < FUNCTION_COUNT; i++)
            atomic_store(&driver.real[i], (void *)tide_object_symbol(object, ours[i].name, NULL));
        atomic_store_explicit(&driver.start, known = object->start, memory_order_release);
        tide_recorder_cuda(TIDE_HEAP_CUDA_ON);
    } else if (known != object->start) {
        tide_recorder_cuda(known ? TIDE_HEAP_CUDA_SECOND : TIDE_HEAP_CUDA_INCOMPLETE);
    }
    tide_latch_release(&driver.learning);
    return known == object->start;
}

void tide_interpose_cuda_unloaded(void)
{
    struct tide_object object;
    uintptr_t start = atomic_load(&driver.start);
    if (!start || (is_driver(start, &object) && object.start == start) || !tide_latch_take(&driver.learning))
        return;
    atomic_store(&driver.start, 0);
    for (int i = 0; i < FUNCTION_COUNT; i++)
        atomic_store(&driver.real[i], NULL);
    tide_latch_release(&driver.learning);
}

/* Returns what to give for an address that the loader or the driver returned. */
static void *instead_of(void *found)
{
    uintptr_t address = (uintptr_t)found;
    struct tide_object object;
    if (!found || !tide_recorder_works() || !is_driver(address, &object) || !is_learned(&object))
        return found;
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (atomic_load_explicit(&driver.real[i], memory_order_relaxed) == found)
            return ours[i].address;
    return found;
}

/* Stands in for a missing function. A program can only get here by a name that it linked with. */
static int absent(void)
{
    return NOT_INITIALIZED;
}

static __attribute__((noinline, cold)) void *look_up(int i)
{
    struct tide_object object;
    void *handle = dlopen(DRIVER ".1", RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? next_dlsym(handle, ours[i].name) : NULL;
    if (found && is_driver((uintptr_t)found, &object))
        is_learned(&object);
    return found ? found : (void *)absent;
}

static void *real_of(int i)
{
    void *real = atomic_load_explicit(&driver.real[i], memory_order_acquire);
    return real ? real : look_up(i);
}

#define REAL(name) ((__typeof__(&name))real_of(AT_##name))

/* Defines a function of the driver that runs `done` if the real one succeeded. */
#define AFTER(name, parameters, arguments, done)                                                             \
    EXPORT int name parameters                                                                               \
    {                                                                                                        \
        int failed = REAL(name) arguments;                                                                   \
        if (!failed) {                                                                                       \
            done;                                                                                            \
        }                                                                                                    \
        return failed;                                                                                       \
    }

/* ---- memory that has an address from the beginning */

static const void *key_of(uint64_t address, uint64_t bit)
{
    return (const void *)(address | bit);
}

static void taken(device_pointer pointer, size_t bytes, struct tide_unwind_frame caller)
{
    tide_recorder_block(TIDE_SITE_CUDA, key_of(pointer, TIDE_POINTERS_DEVICE), bytes, caller);
}

/* Pinned memory is host memory that the driver takes from mmap(). If that mapping was seen, this block
 * replaces it. */
static void pinned(const void *pointer, size_t bytes, struct tide_unwind_frame caller)
{
    tide_recorder_unmapped(pointer, bytes);
    tide_recorder_block(TIDE_SITE_MMAP, key_of((uintptr_t)pointer, TIDE_POINTERS_PINNED), bytes, caller);
}

/* cuMemAlloc_v2 allocates the segments of frameworks' pools. */
AFTER(cuMemAlloc_v2, (device_pointer * ret, size_t bytes), (ret, bytes),
      tide_recorder_segment(*ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemAllocPitch_v2,
      (device_pointer * ret, size_t *ret_pitch, size_t width, size_t height, unsigned element),
      (ret, ret_pitch, width, height, element), taken(*ret, *ret_pitch *height, TIDE_UNWIND_CALLER))
AFTER(cuMemAllocManaged, (device_pointer * ret, size_t bytes, unsigned flags), (ret, bytes, flags),
      taken(*ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemAllocAsync, (device_pointer * ret, size_t bytes, stream on), (ret, bytes, on),
      taken(*ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemAllocAsync_ptsz, (device_pointer * ret, size_t bytes, stream on), (ret, bytes, on),
      taken(*ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemAllocFromPoolAsync, (device_pointer * ret, size_t bytes, void *pool, stream on),
      (ret, bytes, pool, on), taken(*ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemAllocFromPoolAsync_ptsz, (device_pointer * ret, size_t bytes, void *pool, stream on),
      (ret, bytes, pool, on), taken(*ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags), (ret, bytes, flags),
      pinned(*ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemAllocHost_v2, (void **ret, size_t bytes), (ret, bytes), pinned(*ret, bytes, TIDE_UNWIND_CALLER))

/* The block is taken out before the call, because another thread may get the address at once. It is put back
 * if the driver refuses. */
#define FREES(name, key, parameters, arguments)                                                              \
    EXPORT int name parameters                                                                               \
    {                                                                                                        \
        struct tide_pointers_block block = {0};                                                              \
        if (pointer && tide_pointers_may_hold(key))                                                          \
            block = tide_recorder_take(key);                                                                 \
        int failed = REAL(name) arguments;                                                                   \
        if (failed)                                                                                          \
            tide_recorder_put_back(key, block);                                                              \
        return failed;                                                                                       \
    }

FREES(cuMemFree_v2, key_of(pointer, TIDE_POINTERS_DEVICE), (device_pointer pointer), (pointer))
FREES(cuMemFreeAsync, key_of(pointer, TIDE_POINTERS_DEVICE), (device_pointer pointer, stream on),
      (pointer, on))
FREES(cuMemFreeAsync_ptsz, key_of(pointer, TIDE_POINTERS_DEVICE), (device_pointer pointer, stream on),
      (pointer, on))
FREES(cuMemFreeHost, key_of((uintptr_t)pointer, TIDE_POINTERS_PINNED), (void *pointer), (pointer))

/* ---- memory that is given an address later */

AFTER(cuMemCreate,
      (generic_handle * ret, size_t bytes, const struct allocation_properties *properties,
       unsigned long long flags),
      (ret, bytes, properties, flags),
      tide_recorder_device_created(properties->location_type == LOCATION_DEVICE ? TIDE_SITE_CUDA
                                                                                : TIDE_SITE_MMAP,
                                   *ret, bytes, TIDE_UNWIND_CALLER))
AFTER(cuMemRelease, (generic_handle handle), (handle), tide_recorder_device_released(handle))
AFTER(cuMemRetainAllocationHandle, (generic_handle * ret, void *address), (ret, address),
      tide_recorder_device_retained(*ret, (uintptr_t)address))
AFTER(cuMemMap,
      (device_pointer pointer, size_t bytes, size_t offset, generic_handle handle, unsigned long long flags),
      (pointer, bytes, offset, handle, flags), tide_recorder_device_mapped(pointer, bytes, handle))
AFTER(cuMemUnmap, (device_pointer pointer, size_t bytes), (pointer, bytes),
      tide_recorder_device_unmapped(pointer, bytes))

/* ---- ways to look the functions up */

AFTER(cuGetProcAddress, (const char *name, void **ret, int version, uint64_t flags),
      (name, ret, version, flags), if (ret) *ret = instead_of(*ret))
AFTER(cuGetProcAddress_v2, (const char *name, void **ret, int version, uint64_t flags, int *ret_status),
      (name, ret, version, flags, ret_status), if (ret) *ret = instead_of(*ret))

#ifdef __x86_64__

void *tide_dlsym_of_driver(void *handle, const char *name, uintptr_t caller);
__attribute__((used)) void *tide_dlsym_of_driver(void *handle, const char *name, uintptr_t caller)
{
    struct tide_object object;
    void *found = next_dlsym(handle, name);
    return found && !is_driver(caller, &object) ? instead_of(found) : found;
}

/*
 * void *dlsym(void *handle, const char *name)
 *
 * RTLD_DEFAULT (0), RTLD_NEXT (-1) and names that do not begin with "cu" go straight to the C library's
 * dlsym.
 */
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        ".p2align 4\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    leaq 1(%rdi), %rax\n"
        "    cmpq $1, %rax\n"
        "    jbe 1f\n"
        "    cmpb $'c', (%rsi)\n"
        "    jne 1f\n"
        "    cmpb $'u', 1(%rsi)\n"
        "    jne 1f\n"
        "    movq (%rsp), %rdx\n"
        "    jmp tide_dlsym_of_driver\n"
        "1:  movq tide_next_dlsym(%rip), %rax\n"
        "    testq %rax, %rax\n"
        "    je 2f\n"
        "    jmp *%rax\n"
        "2:  pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call tide_find_dlsym\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    je 3f\n"
        "    jmp *%rax\n"
        "3:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");

#endif
