#include "base/allocations.h"
#include "base/sanitizer.h"

#include <stdatomic.h>
#include <stddef.h>

#if TIDE_SANITIZED

static _Atomic int64_t made;
static atomic_flag asked = ATOMIC_FLAG_INIT;

/* From the sanitizers' allocator_interface.h, which not every compiler installs. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *pointer, size_t bytes)
{
    (void)pointer;
    (void)bytes;
    made++;
}

static void on_free(const volatile void *pointer)
{
    (void)pointer;
}

int64_t tide_allocations(void)
{
    if (!atomic_flag_test_and_set(&asked))
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    return made;
}

#else

int64_t tide_allocations(void)
{
    return 0;
}

#endif
