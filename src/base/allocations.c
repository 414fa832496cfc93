#include "base/allocations.h"

#include <stdatomic.h>
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

static _Atomic int64_t made;

__attribute__((unused)) static void count_one(void)
{
    made++;
}

#if defined(SANITIZED)

static atomic_flag asked = ATOMIC_FLAG_INIT;

/* Of the sanitizers' allocator_interface.h, which not every compiler installs. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *pointer, size_t bytes)
{
    (void)pointer;
    (void)bytes;
    count_one();
}

static void on_free(const volatile void *pointer)
{
    (void)pointer;
}

#elif !defined(__OPTIMIZE__) && defined(__GLIBC__)

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

/* Weak: a test may have its own. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *pointer, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

__attribute__((weak)) void *malloc(size_t bytes)
{
    count_one();
    return __libc_malloc(bytes);
}

__attribute__((weak)) void *calloc(size_t count, size_t bytes)
{
    count_one();
    return __libc_calloc(count, bytes);
}

__attribute__((weak)) void *realloc(void *pointer, size_t bytes)
{
    count_one();
    return __libc_realloc(pointer, bytes);
}

__attribute__((weak)) void *memalign(size_t alignment, size_t bytes)
{
    count_one();
    return __libc_memalign(alignment, bytes);
}

__attribute__((weak)) void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

__attribute__((weak)) int posix_memalign(void **ret_pointer, size_t alignment, size_t bytes)
{
    void *pointer = memalign(alignment, bytes);
    if (!pointer)
        return ENOMEM;
    *ret_pointer = pointer;
    return 0;
}

#endif

int64_t tide_allocations(void)
{
#if defined(SANITIZED)
    if (!atomic_flag_test_and_set(&asked))
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
#endif
    return made;
}
