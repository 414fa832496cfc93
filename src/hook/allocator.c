#include "hook/allocator.h"
#include "hook/hook_clock.h"
#include "hook/object.h"
#include "hook/wiped.h"

#include <dlfcn.h>
#include <signal.h>

/* The pause is PAUSE times the processor time of the last call (0.5 %). Time in which other threads ran does
 * not count. */
enum { LEAST_MS = 250, PAUSE = 200 };

/* Wiped, because in a child nobody is asking, whatever its parent was doing. */
static struct TIDE_WIPED {
    atomic_bool asking;
    _Atomic uint64_t next_ns; /* 0: not asked yet */
} self;

/* struct mallinfo2, which glibc has from 2.33 on. */
struct info {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

static struct info (*info)(void);

void tide_allocator_init(void *real_malloc)
{
    struct tide_object mine, theirs;
    void *found = dlsym(RTLD_NEXT, "mallinfo2");
    if (!found || !tide_object_find((uintptr_t)found, &mine) ||
        !tide_object_find((uintptr_t)real_malloc, &theirs) || mine.start != theirs.start ||
        tide_wiped_declare(&self, sizeof self))
        return;
    *(void **)&info = found;
}

static void publish(struct tide_heap_head *table, const struct info *m, uint64_t took_ns)
{
    atomic_store_explicit(&table->allocator_system, m->arena, memory_order_relaxed);
    atomic_store_explicit(&table->allocator_mapped, m->hblkhd, memory_order_relaxed);
    atomic_store_explicit(&table->allocator_free, m->fordblks, memory_order_relaxed);
    atomic_store_explicit(&table->allocator_pieces, m->ordblks + m->smblks, memory_order_relaxed);
    atomic_store_explicit(&table->allocator_top, m->keepcost, memory_order_relaxed);
    atomic_fetch_add_explicit(&table->allocator_ns, took_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&table->allocator_readings, 1, memory_order_release);
}

bool tide_allocator_is_due(void)
{
    return info && tide_hook_clock_ns(CLOCK_MONOTONIC_COARSE) >=
                       atomic_load_explicit(&self.next_ns, memory_order_relaxed);
}

void tide_allocator_ask(struct tide_heap_head *table)
{
    if (atomic_exchange_explicit(&self.asking, true, memory_order_acquire))
        return;
    sigset_t all, before;
    sigfillset(&all);
    if (!pthread_sigmask(SIG_SETMASK, &all, &before)) {
        uint64_t from = tide_hook_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        struct info m = info();
        uint64_t took = tide_hook_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from,
                 least = UINT64_C(1000000) * LEAST_MS;
        publish(table, &m, took);
        uint64_t pause = took * PAUSE > least ? took * PAUSE : least;
        atomic_store_explicit(&self.next_ns, tide_hook_clock_ns(CLOCK_MONOTONIC) + pause,
                              memory_order_relaxed);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    atomic_store_explicit(&self.asking, false, memory_order_release);
}
