/*
 * interpose.c - the functions that libtidemark-hook.so defines in front of the program's.
 *
 * Each calls the next definition of the same name, normally the C library's; none is an allocator itself. A
 * free is recorded before the real call and an allocation after it, so that no address is in the map twice.
 *
 * The next definitions are looked up at the first call of any of these functions, or by the constructor,
 * whichever comes first, because libraries allocate in their constructors before ours runs. The lookup itself
 * may allocate; static memory, which is never freed, serves that.
 *
 * The slow halves are separate functions. The fast halves jump to them as a tail call, so that the fast ones
 * need no stack frame and the return address of the slow ones lies in the program.
 */
#include "hook/allocator.h"
#include "hook/census.h"
#include "hook/interpose_cuda.h"
#include "hook/object.h"
#include "hook/pyobjects.h"
#include "hook/recorder.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SLOW   static __attribute__((noinline))

#define SEED_ENV "TIDEMARK_HEAP_SEED" /* for tests: the same samples in each run */

enum { BOOTSTRAP_BYTES = 65536 };

/* Result, name, parameters. */
#define REAL_FUNCTIONS(X)                                                                                    \
    X(void *, malloc, (size_t))                                                                              \
    X(void *, calloc, (size_t, size_t))                                                                      \
    X(void *, realloc, (void *, size_t))                                                                     \
    X(void, free, (void *))                                                                                  \
    X(int, posix_memalign, (void **, size_t, size_t))                                                        \
    X(void *, aligned_alloc, (size_t, size_t))                                                               \
    X(void *, memalign, (size_t, size_t))                                                                    \
    X(void *, valloc, (size_t))                                                                              \
    X(void *, pvalloc, (size_t))                                                                             \
    X(void *, mmap, (void *, size_t, int, int, int, off_t))                                                  \
    X(int, munmap, (void *, size_t))                                                                         \
    X(void *, mremap, (void *, size_t, size_t, int, ...))                                                    \
    X(int, mprotect, (void *, size_t, int))                                                                  \
    X(int, dlclose, (void *))                                                                                \
    X(int, pthread_getattr_np, (pthread_t, pthread_attr_t *))

#define DECLARE(result, name, parameters) result(*name) parameters;
static struct {
    REAL_FUNCTIONS(DECLARE)
} real;

static atomic_int resolving; /* 0: not yet, 1: in progress, 2: done */
static __thread int resolver __attribute__((tls_model("initial-exec")));

EXPORT void *memalign(size_t alignment, size_t bytes);
EXPORT void *valloc(size_t bytes);
EXPORT void *pvalloc(size_t bytes);
EXPORT void free_sized(void *pointer, size_t bytes);
EXPORT void free_aligned_sized(void *pointer, size_t alignment, size_t bytes);

/* ---- static memory for allocations while the real functions are looked up */

static _Alignas(64) char bootstrap[BOOTSTRAP_BYTES];
static atomic_size_t bootstrap_used;

static bool is_bootstrap(const void *pointer)
{
    return __builtin_expect((uintptr_t)pointer - (uintptr_t)bootstrap < BOOTSTRAP_BYTES, 0);
}

/* Zeroed; the size is kept in the 16 bytes before it. */
static void *bootstrap_take(size_t bytes)
{
    if (bytes > BOOTSTRAP_BYTES / 2)
        return NULL;
    size_t whole = (bytes + 31) & ~(size_t)15, at = atomic_fetch_add(&bootstrap_used, whole);
    if (at + whole > BOOTSTRAP_BYTES)
        return NULL;
    memcpy(bootstrap + at, &bytes, sizeof bytes);
    return bootstrap + at + 16;
}

static size_t bootstrap_size(const void *pointer)
{
    size_t bytes;
    memcpy(&bytes, (const char *)pointer - 16, sizeof bytes);
    return bytes;
}

/* ---- the real functions */

/* True if the real functions can be called. False if this thread is looking them up, or there are none.
 * Another thread waits: there are hardly ever two threads before the first allocation. */
static __attribute__((noinline, cold)) bool resolve(void)
{
    if (resolver)
        return false;
    int expected = 0;
    if (atomic_compare_exchange_strong(&resolving, &expected, 1)) {
        resolver = 1;
#define LOOK_UP(result, name, parameters) *(void **)&real.name = dlsym(RTLD_NEXT, #name);
        REAL_FUNCTIONS(LOOK_UP)
        resolver = 0;
        atomic_store(&resolving, 2);
    }
    while (atomic_load(&resolving) != 2)
        sched_yield();
    return real.malloc && real.free;
}

static inline bool is_ready(void)
{
    return __builtin_expect(real.free != NULL && atomic_load_explicit(&resolving, memory_order_acquire) == 2,
                            1) ||
           resolve();
}

/* ---- allocation */

SLOW void *malloc_recorded(size_t bytes)
{
    if (!is_ready())
        return bootstrap_take(bytes);
    void *pointer = real.malloc(bytes);
    tide_recorder_allocated(TIDE_SITE_MALLOC, pointer, bytes, TIDE_UNWIND_CALLER);
    return pointer;
}

EXPORT void *malloc(size_t bytes)
{
    if (tide_recorder_due(bytes))
        return malloc_recorded(bytes);
    return real.malloc(bytes);
}

SLOW void *calloc_recorded(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    if (!is_ready())
        return bootstrap_take(bytes);
    void *pointer = real.calloc(count, size);
    tide_recorder_allocated(TIDE_SITE_MALLOC, pointer, bytes, TIDE_UNWIND_CALLER);
    return pointer;
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || tide_recorder_due(bytes))
        return calloc_recorded(count, size);
    return real.calloc(count, size);
}

static void *leave_bootstrap(void *pointer, size_t bytes)
{
    void *moved = is_ready() ? real.malloc(bytes) : bootstrap_take(bytes);
    size_t held = bootstrap_size(pointer);
    if (moved)
        memcpy(moved, pointer, held < bytes ? held : bytes);
    return moved;
}

static void *reallocate(void *pointer, size_t bytes, bool due, struct tide_unwind_frame caller)
{
    struct tide_pointers_block block = {0};
    void *moved;
    if (is_bootstrap(pointer)) {
        moved = leave_bootstrap(pointer, bytes);
    } else if (!is_ready()) {
        return pointer ? NULL : bootstrap_take(bytes);
    } else {
        if (tide_pointers_may_hold(pointer))
            block = tide_recorder_take(pointer);
        moved = real.realloc(pointer, bytes);
        if (!moved && bytes)
            tide_recorder_put_back(pointer, block);
    }
    if (due)
        tide_recorder_allocated(TIDE_SITE_MALLOC, moved, bytes, caller);
    return moved;
}

SLOW void *realloc_due(void *pointer, size_t bytes)
{
    return reallocate(pointer, bytes, true, TIDE_UNWIND_CALLER);
}

SLOW void *realloc_held(void *pointer, size_t bytes)
{
    return reallocate(pointer, bytes, false, TIDE_UNWIND_CALLER);
}

EXPORT void *realloc(void *pointer, size_t bytes)
{
    if (tide_recorder_due(bytes))
        return realloc_due(pointer, bytes);
    if (tide_pointers_may_hold(pointer) || is_bootstrap(pointer))
        return realloc_held(pointer, bytes);
    return real.realloc(pointer, bytes);
}

EXPORT void *reallocarray(void *pointer, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(pointer, bytes);
}

/* ---- aligned allocation: too rare to need a fast half */

#define ALIGNED(name, bytes, parameters, arguments)                                                          \
    EXPORT void *name parameters                                                                             \
    {                                                                                                        \
        bool due = tide_recorder_due(bytes);                                                                 \
        if (!is_ready() || !real.name) {                                                                     \
            errno = ENOMEM;                                                                                  \
            return NULL;                                                                                     \
        }                                                                                                    \
        void *pointer = real.name arguments;                                                                 \
        if (due)                                                                                             \
            tide_recorder_allocated(TIDE_SITE_MALLOC, pointer, bytes, TIDE_UNWIND_CALLER);                   \
        return pointer;                                                                                      \
    }

ALIGNED(aligned_alloc, bytes, (size_t alignment, size_t bytes), (alignment, bytes))
ALIGNED(memalign, bytes, (size_t alignment, size_t bytes), (alignment, bytes))
ALIGNED(valloc, bytes, (size_t bytes), (bytes))
ALIGNED(pvalloc, bytes, (size_t bytes), (bytes))

EXPORT int posix_memalign(void **ret_pointer, size_t alignment, size_t bytes)
{
    bool due = tide_recorder_due(bytes);
    if (!is_ready() || !real.posix_memalign)
        return ENOMEM;
    int failed = real.posix_memalign(ret_pointer, alignment, bytes);
    if (due && !failed)
        tide_recorder_allocated(TIDE_SITE_MALLOC, *ret_pointer, bytes, TIDE_UNWIND_CALLER);
    return failed;
}

/* ---- freeing */

/* The filter may say "perhaps" for bootstrap memory too. */
SLOW void free_recorded(void *pointer)
{
    if (is_bootstrap(pointer))
        return;
    tide_recorder_take(pointer);
    real.free(pointer);
}

EXPORT void free(void *pointer)
{
    if (tide_pointers_may_hold(pointer)) {
        free_recorded(pointer);
        return;
    }
    if (is_bootstrap(pointer) || (__builtin_expect(!real.free, 0) && (!pointer || !is_ready())))
        return;
    real.free(pointer);
}

EXPORT void free_sized(void *pointer, size_t bytes)
{
    (void)bytes;
    free(pointer);
}

EXPORT void free_aligned_sized(void *pointer, size_t alignment, size_t bytes)
{
    (void)alignment, (void)bytes;
    free(pointer);
}

/* ---- mappings */

#define RESERVATION_BYTES ((size_t)1 << 30)

/* True for address space that nobody may write to yet, or that is more than anyone means to fill. */
static bool is_reservation(size_t bytes, int protection, int flags)
{
    return !(protection & PROT_WRITE) || (flags & MAP_NORESERVE && bytes >= RESERVATION_BYTES);
}

/* The library whose malloc serves the program, if it is not the C library. Its mappings are not recorded. */
static uintptr_t allocator_start, allocator_end;

static void record_mapping(void *pointer, size_t bytes, int protection, int flags,
                           struct tide_unwind_frame caller)
{
    if (!(flags & MAP_ANONYMOUS) || flags & (MAP_STACK | MAP_GROWSDOWN))
        return; /* a file mapping is not heap memory, nor is a stack */
    if (caller.pc - allocator_start < allocator_end - allocator_start)
        return;
    tide_recorder_mapped(pointer, bytes, !is_reservation(bytes, protection, flags), caller);
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!is_ready() || !real.mmap)
        return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
    if (flags & MAP_FIXED && !((uintptr_t)address & 4095))
        tide_recorder_unmapped(address, bytes);
    void *pointer = real.mmap(address, bytes, protection, flags, fd, offset);
    if (pointer != MAP_FAILED)
        record_mapping(pointer, bytes, protection, flags, TIDE_UNWIND_CALLER);
    return pointer;
}

EXPORT __attribute__((alias("mmap"))) __typeof__(mmap64) mmap64;

EXPORT int munmap(void *address, size_t bytes)
{
    if (!is_ready() || !real.munmap)
        return (int)syscall(SYS_munmap, address, bytes);
    if (bytes && !((uintptr_t)address & 4095))
        tide_recorder_unmapped(address, bytes);
    return real.munmap(address, bytes);
}

/* The parts of a moved mapping that were reservations still are. */
static void reserve_moved(const struct tide_recorder_moving *moving, uintptr_t address, const char *moved,
                          size_t bytes, struct tide_unwind_frame caller)
{
    for (size_t i = moving->mapped; i < moving->count; i++) {
        size_t from = moving->pieces[i].start - address, to = moving->pieces[i].end - address;
        if (from < bytes)
            tide_recorder_mapped(moved + from, (to < bytes ? to : bytes) - from, false, caller);
    }
}

EXPORT void *mremap(void *address, size_t old_bytes, size_t new_bytes, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
    va_end(more);
    if (!is_ready() || !real.mremap)
        return (void *)syscall(SYS_mremap, address, old_bytes, new_bytes, flags, wanted);
    struct tide_recorder_moving moving = tide_recorder_moving(address, old_bytes);
    if (flags & MREMAP_FIXED)
        tide_recorder_unmapped(wanted, new_bytes);
    void *moved = real.mremap(address, old_bytes, new_bytes, flags, wanted);
    if (moved == MAP_FAILED) {
        tide_recorder_stayed(&moving);
    } else if (moving.count) {
        tide_recorder_mapped(moved, new_bytes, moving.mapped > 0, TIDE_UNWIND_CALLER);
        if (moving.mapped)
            reserve_moved(&moving, (uintptr_t)address, moved, new_bytes, TIDE_UNWIND_CALLER);
    }
    return moved;
}

EXPORT int mprotect(void *address, size_t bytes, int protection)
{
    if (!is_ready() || !real.mprotect)
        return (int)syscall(SYS_mprotect, address, bytes, protection);
    int failed = real.mprotect(address, bytes, protection);
    if (!failed && (protection & PROT_WRITE || protection == PROT_NONE))
        tide_recorder_protected(address, bytes, protection & PROT_WRITE, TIDE_UNWIND_CALLER);
    return failed;
}

/* ---- unloading: other code may be loaded at the same addresses */

EXPORT int dlclose(void *handle)
{
    if (!is_ready() || !real.dlclose)
        return -1;
    int failed = real.dlclose(handle);
    tide_recorder_unloaded();
    tide_interpose_cuda_unloaded();
    return failed;
}

/* ---- a thread's attributes: the C library allocates under the thread's lock here. The recorder asks for the
 * same attributes at a thread's first allocation, which this may be (Java's and Rust's threads begin so). */

EXPORT int pthread_getattr_np(pthread_t thread, pthread_attr_t *ret_attributes)
{
    if (!is_ready() || !real.pthread_getattr_np)
        return ENOSYS;
    bool paused = tide_recorder_pause();
    int failed = real.pthread_getattr_np(thread, ret_attributes);
    if (paused)
        tide_recorder_resume();
    return failed;
}

/* ---- the beginning */

/* True if a library ahead of us defines malloc. In a program that is not position-independent and takes
 * malloc's address, that address is the program's own stub, which still leads to us. */
static bool is_replaced(void)
{
    void *first = dlsym(RTLD_DEFAULT, "malloc");
    struct tide_object object;
    return first != (void *)malloc && tide_object_find((uintptr_t)first, &object) &&
           tide_object_symbol(&object, "malloc", NULL);
}

/* A sanitizer linked into the program may not export its names. AddressSanitizer starts before us and has
 * mapped its shadow at its fixed address. The shadow is readable, unlike address space that somebody only
 * reserved there. The kernel does the test read, because it returns EFAULT where we would crash. */
static bool has_shadow(void)
{
    return !syscall(SYS_faccessat, AT_FDCWD, 0x7fff8000, F_OK) || errno != EFAULT;
}

static bool is_sanitized(bool replaced)
{
    static const char *const runtimes[] = {"__asan_init", "__tsan_init", "__msan_init", "__lsan_init",
                                           "__hwasan_init"};
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++)
        if (dlsym(RTLD_DEFAULT, runtimes[i]))
            return true;
    return replaced && has_shadow();
}

/* True if malloc is served by a library like jemalloc or tcmalloc, not by the C library, and that library
 * also serves C++'s new without calling malloc; only libstdc++'s new calls it. */
static bool has_own_new(void)
{
    struct tide_object served, libc;
    uintptr_t new_at = (uintptr_t)dlsym(RTLD_DEFAULT, "_Znwm");
    if (!tide_object_find((uintptr_t)real.malloc, &served) || !tide_object_find((uintptr_t)getpid, &libc) ||
        served.start == libc.start)
        return false;
    allocator_start = served.start;
    allocator_end = served.end;
    return new_at >= served.start && new_at < served.end;
}

/* Returns a number up to 2^30 from the environment, or 0 if it is absent or not understood. */
static uint64_t wanted(const char *name)
{
    const char *text = secure_getenv(name);
    uint64_t value = 0;
    for (; text && *text >= '0' && *text <= '9' && value <= UINT32_MAX; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return text && !*text && value <= UINT64_C(1) << 30 ? value : 0;
}

static __attribute__((constructor(101))) void begin(void)
{
    uint64_t interval = wanted(TIDE_HEAP_ENV);
    bool ready = is_ready(); /* first: once anything sets `left`, malloc calls real.malloc unchecked */
    if (!interval) {
        tide_recorder_refuse();
        return;
    }
    tide_local.guard = TIDE_RECORDER_INTERNAL;
    tide_object_init();
    enum tide_heap_state state = TIDE_HEAP_ON;
    if (!ready || !real.calloc || !real.realloc || !real.mmap || !real.munmap)
        state = TIDE_HEAP_UNKNOWN_LIBC;
    else if (is_replaced())
        state = is_sanitized(true) ? TIDE_HEAP_SANITIZED : TIDE_HEAP_REPLACED;
    else if (is_sanitized(false))
        state = TIDE_HEAP_SANITIZED;
    if (state == TIDE_HEAP_ON && has_own_new())
        state = TIDE_HEAP_OWN_NEW;
    if (state == TIDE_HEAP_ON)
        tide_allocator_init((void *)real.malloc);
    if (wanted(TIDE_HEAP_NO_CENSUS_ENV))
        tide_census_refuse();
    if (tide_recorder_init(interval, wanted(SEED_ENV)))
        tide_recorder_refuse();
    else
        tide_recorder_start(state);
    if (state != TIDE_HEAP_REPLACED && tide_recorder_works() && wanted(TIDE_HEAP_OBJECTS_ENV))
        tide_pyobjects_begin();
    tide_local.guard = TIDE_RECORDER_OUT;
}
