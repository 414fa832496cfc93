/*
 * pyobjects.c - wraps CPython's allocator of small objects (pyobjects.h).
 *
 * PyMem_SetAllocator may be called before the interpreter is initialized, and what it sets then stays, unless
 * PYTHONMALLOC or -X dev choose another allocator. The hook sees "malloc" anyway, and leaves the debugging
 * ones alone. The interface has not changed since Python 3.5.
 */
#include "hook/pyobjects.h"
#include "hook/recorder.h"

#include <dlfcn.h>

#define SLOW static __attribute__((noinline))

enum { MEMORY = 1, OBJECTS = 2, DOMAINS = 2 }; /* PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ */
enum { SMALL = 512 };                          /* larger objects go to malloc, where they are seen */

/* PyMemAllocatorEx */
struct allocator {
    void *context;
    void *(*malloc)(void *context, size_t bytes);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *pointer, size_t bytes);
    void (*free)(void *context, void *pointer);
};

static struct allocator inner[DOMAINS];

static inline bool is_due(size_t bytes)
{
    return bytes <= SMALL && tide_recorder_due(bytes);
}

SLOW void *malloc_recorded(const struct allocator *a, size_t bytes)
{
    void *pointer = a->malloc(a->context, bytes);
    tide_recorder_allocated(TIDE_SITE_POOL, pointer, bytes, TIDE_UNWIND_CALLER);
    return pointer;
}

static void *object_malloc(void *context, size_t bytes)
{
    const struct allocator *a = context;
    if (is_due(bytes))
        return malloc_recorded(a, bytes);
    return a->malloc(a->context, bytes);
}

SLOW void *calloc_recorded(const struct allocator *a, size_t count, size_t size)
{
    void *pointer = a->calloc(a->context, count, size);
    tide_recorder_allocated(TIDE_SITE_POOL, pointer, count * size, TIDE_UNWIND_CALLER);
    return pointer;
}

static void *object_calloc(void *context, size_t count, size_t size)
{
    const struct allocator *a = context;
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && is_due(bytes))
        return calloc_recorded(a, count, size);
    return a->calloc(a->context, count, size);
}

SLOW void *realloc_recorded(const struct allocator *a, void *pointer, size_t bytes, bool due)
{
    struct tide_pointers_block block = {0};
    if (tide_pointers_page_may_hold((uintptr_t)pointer))
        block = tide_recorder_take(tide_pointers_pooled(pointer));
    void *moved = a->realloc(a->context, pointer, bytes);
    if (!moved)
        tide_recorder_put_back(tide_pointers_pooled(pointer), block);
    else if (due)
        tide_recorder_allocated(TIDE_SITE_POOL, moved, bytes, TIDE_UNWIND_CALLER);
    return moved;
}

static void *object_realloc(void *context, void *pointer, size_t bytes)
{
    const struct allocator *a = context;
    bool due = is_due(bytes);
    if (due || tide_pointers_page_may_hold((uintptr_t)pointer))
        return realloc_recorded(a, pointer, bytes, due);
    return a->realloc(a->context, pointer, bytes);
}

SLOW void free_recorded(const struct allocator *a, void *pointer)
{
    tide_recorder_take(tide_pointers_pooled(pointer));
    a->free(a->context, pointer);
}

static void object_free(void *context, void *pointer)
{
    const struct allocator *a = context;
    if (tide_pointers_page_may_hold((uintptr_t)pointer))
        free_recorded(a, pointer);
    else
        a->free(a->context, pointer);
}

void tide_pyobjects_begin(void)
{
    void (*get)(int, struct allocator *), (*set)(int, struct allocator *);
    *(void **)&get = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
    *(void **)&set = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    if (!get || !set)
        return;
    for (int i = 0; i < DOMAINS; i++) {
        int domain = i ? OBJECTS : MEMORY;
        get(domain, &inner[i]);
        struct allocator outer = {&inner[i], object_malloc, object_calloc, object_realloc, object_free};
        if (inner[i].malloc && inner[i].calloc && inner[i].realloc && inner[i].free)
            set(domain, &outer);
    }
}
