#include "hook/latch.h"
#include "channel/birth.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

/* A holder is examined after about 20 ms of waiting, and then after every long nap. Its work under a latch
 * takes microseconds, or 1 ms when a table grows. */
enum { SPINS = 200, YIELDS = 100, NAPS = 200, NAP_NS = 100000, LONG_NAP_NS = 2000000 };
enum { IDLE_LOOKS = 10, BUSY_NS = 20000000 };

__thread struct tide_latch_self tide_latch_self;

struct tide_latch_process tide_latch_process;
static _Atomic unsigned lives; /* of this program and the processes it was forked from */

int tide_latch_init(void)
{
    return tide_wiped_declare(&tide_latch_process, sizeof tide_latch_process);
}

void tide_latch_ask_self(void)
{
    unsigned life = atomic_load(&tide_latch_process.life);
    if (!life) {
        unsigned mine = atomic_fetch_add(&lives, 1) + 1;
        life = atomic_compare_exchange_strong(&tide_latch_process.life, &life, mine) ? mine : life;
    }
    long thread = syscall(SYS_gettid);
    tide_latch_self = (struct tide_latch_self){
        .thread = (unsigned)thread, .life = life, .first = thread == syscall(SYS_getpid)};
}

/* ---- waiting */

/* What is known about a holder. */
struct sight {
    unsigned thread;  /* 0: nothing yet */
    int64_t first_ns; /* processor time that it had used when first seen */
    int idle;         /* looks in a row at which it slept */
};

/* Returns the processor time that a thread of this process has used, or -1 if there is no such thread. */
static int64_t used_ns(unsigned thread)
{
    struct timespec t;
    int clock = (int)(~thread << 3 | 6); /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED */
    return syscall(SYS_clock_gettime, clock, &t) ? -1 : (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the letter of the thread's state, or '?' if it cannot be read. */
static char state_of(unsigned thread)
{
    char path[64] = "/proc/self/task/";
    struct tide_stat stat;
    memcpy(tide_birth_digits(path + strlen(path), thread), "/stat", sizeof "/stat");
    return tide_birth_look(path, &stat) ? '?' : stat.state;
}

/* True if the holder may still release soon: it runs, waits for a processor or a page, or is stopped. Not if
 * the holder is the calling thread itself, whose signal handler jumped away. */
static bool is_at_it(struct sight *sight, unsigned thread)
{
    if (thread == tide_latch_me()->thread)
        return false;
    int64_t used = used_ns(thread);
    if (sight->thread != thread)
        *sight = (struct sight){.thread = thread, .first_ns = used};
    char state = state_of(thread);
    sight->idle = state == 'S' ? sight->idle + 1 : 0;
    return used >= 0 && used - sight->first_ns < BUSY_NS && sight->idle < IDLE_LOOKS &&
           !strchr("?ZXx", state);
}

bool tide_latch_wait(tide_latch *latch)
{
    struct sight sight = {0};
    unsigned me = tide_latch_me()->thread;
    for (long i = 0;; i++) {
        unsigned seen = atomic_load_explicit(latch, memory_order_relaxed);
        if (seen == TIDE_LATCH_FREE && atomic_compare_exchange_strong_explicit(
                                           latch, &seen, me, memory_order_acquire, memory_order_relaxed))
            return true;
        if (seen == TIDE_LATCH_ABANDONED)
            return false;
        if (i >= SPINS + YIELDS + NAPS && seen != TIDE_LATCH_FREE && !is_at_it(&sight, seen) &&
            atomic_compare_exchange_strong(latch, &seen, TIDE_LATCH_ABANDONED))
            return false;
        long nap = i < SPINS + YIELDS + NAPS ? NAP_NS : LONG_NAP_NS;
        if (i >= SPINS + YIELDS)
            syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = nap}, NULL); /* no cancellation point */
        else if (i >= SPINS)
            sched_yield();
        else
            atomic_signal_fence(memory_order_seq_cst);
    }
}
