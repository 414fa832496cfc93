#include "rt/cpu/threads.h"
#include "rt/cpu/processor.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { APART = 128, STACK_BYTES = 1 << 20, SPINS = 1000 };

/* Where a thread waits for its next part, and where the caller waits for it to end. Turns count from 1.
 * Separate cache lines avoid false sharing. */
struct seat {
    _Alignas(APART) _Atomic uint32_t begun; /* the turn that it is to take part in */
    atomic_bool sleeps;                     /* the thread sleeps until begun changes */
    _Alignas(APART) _Atomic uint32_t ended; /* the last turn that it took part in */
    atomic_bool is_awaited;                 /* the caller sleeps until ended changes */
};

static struct {
    int wanted, made; /* threads, with the caller; 0: not set */
    int used;         /* how many of the wanted ones; 0: all */
    atomic_int spins; /* before a waiting thread sleeps */
    uint32_t turn;
    tide_work *work;
    void *context;
    int64_t count, parts;
    struct seat seats[TIDE_THREADS_MOST];
} pool;

/* Of the current thread. */
static _Thread_local bool is_inside;
static _Thread_local int own_number;

static void pause_shortly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void wait_for_change(_Atomic uint32_t *word, uint32_t from)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, from, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits until word is no longer `from`. */
static void await(_Atomic uint32_t *word, uint32_t from, atomic_bool *sleeps)
{
    for (int i = 0; i < pool.spins; i++, pause_shortly())
        if (atomic_load_explicit(word, memory_order_acquire) != from)
            return;
    atomic_store(sleeps, true);
    while (atomic_load(word) == from)
        wait_for_change(word, from);
    atomic_store(sleeps, false);
}

static void announce(_Atomic uint32_t *word, uint32_t value, atomic_bool *sleeps)
{
    atomic_store(word, value);
    if (atomic_load(sleeps))
        wake(word);
}

static void do_part(int number)
{
    int64_t first = pool.count * number / pool.parts, last = pool.count * (number + 1) / pool.parts;
    is_inside = true;
    own_number = number;
    pool.work(pool.context, first, last);
    is_inside = false;
}

static void *serve(void *argument)
{
    struct seat *seat = argument;
    uint32_t turn = 0;
    for (;;) {
        await(&seat->begun, turn, &seat->sleeps);
        turn = atomic_load_explicit(&seat->begun, memory_order_acquire);
        do_part((int)(seat - pool.seats));
        announce(&seat->ended, turn, &seat->is_awaited);
    }
    return NULL;
}

/* Makes as many threads as are wanted, or as the system allows. */
static void make_threads(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int wanted = tide_threads();
    pool.made = pool.made ? pool.made : 1;
    pool.spins = wanted <= tide_processors() ? SPINS : 0;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (pool.made < wanted && !pthread_create(&thread, &attributes, serve, &pool.seats[pool.made]))
        pool.made++;
    pthread_attr_destroy(&attributes);
    pool.wanted = wanted < pool.made ? wanted : pool.made;
}

void tide_threads_set(int count)
{
    pool.wanted = count < 1 ? 1 : count > TIDE_THREADS_MOST ? TIDE_THREADS_MOST : count;
    pool.used = 0;
}

int tide_threads(void)
{
    if (!pool.wanted)
        tide_threads_set(tide_processors());
    return pool.wanted;
}

void tide_threads_use(int count)
{
    pool.used = count;
}

int tide_thread(void)
{
    return own_number;
}

void tide_parallel(int64_t count, int64_t grain, tide_work *work, void *context)
{
    int64_t parts = grain > 0 ? count / grain : count, most = is_inside ? 1 : tide_threads();
    most = pool.used && pool.used < most ? pool.used : most;
    parts = parts > most ? most : parts;
    if (parts > 1 && pool.made < most) {
        make_threads();
        parts = parts > pool.wanted ? pool.wanted : parts;
    }
    if (parts <= 1) {
        int outer = own_number;
        own_number = 0;
        work(context, 0, count);
        own_number = outer;
        return;
    }
    pool.work = work;
    pool.context = context;
    pool.count = count;
    pool.parts = parts;
    pool.turn++;
    for (int64_t i = 1; i < parts; i++)
        announce(&pool.seats[i].begun, pool.turn, &pool.seats[i].sleeps);
    do_part(0);
    for (int64_t i = 1; i < parts; i++) {
        struct seat *seat = &pool.seats[i];
        uint32_t ended;
        while ((ended = atomic_load_explicit(&seat->ended, memory_order_acquire)) != pool.turn)
            await(&seat->ended, ended, &seat->is_awaited);
    }
}
