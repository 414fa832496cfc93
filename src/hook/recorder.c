#include "hook/recorder_private.h"
#include "hook/allocator.h"
#include "hook/pieces.h"
#include "hook/blocks.h"
#include "hook/census.h"
#include "hook/draw.h"
#include "hook/hook_clock.h"
#include "hook/object.h"
#include "hook/pyframes.h"
#include "hook/latch.h"
#include "hook/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DOWN = TIDE_RECORDER_OUT, UP = TIDE_RECORDER_IN, INTERNAL = TIDE_RECORDER_INTERNAL };
enum {
    SIGNAL_FRAME = 1024, /* the least size of a signal frame in bytes */
    TIMED_EVERY = 64,    /* one walk in so many is timed */
    COARSEN_AFTER = 4096 /* samples without room in the map before the interval is doubled */
};
#define RETRY_BYTES   (INT64_C(1) << 20) /* to allocate before a process without a table tries again */
#define INTERVAL_MOST (UINT64_C(1) << 30)
#define COUNT_NS      UINT64_C(250000000)

/* -1: the first allocation of a thread enters the recorder. */
__thread struct tide_local tide_local = {.blocks = {.left = -1}};
_Atomic size_t tide_recorder_exact = SIZE_MAX;

enum { STARTING, RECORDING, REFUSED };
static atomic_int phase;
static _Atomic uint64_t interval;
static _Atomic uint64_t seeds;
static atomic_uint unplaced; /* samples that found no room since the interval last changed */
static uintptr_t own_start, own_end;
static uint64_t seed_wanted; /* 0: from clock, address and process number */

/* When the hook's own memory is counted next, and whether a thread is counting it. */
static struct TIDE_WIPED {
    atomic_bool is_busy;
    _Atomic uint64_t next_ns;
} counting;

/* ---- entering and leaving */

static bool is_within(uintptr_t address, uintptr_t low, uintptr_t high)
{
    return address >= low && address < high;
}

/* True if a signal handler jumped out of the recorder, past the frame that put the guard up. The recorder
 * does not call itself. So a second entry comes from a signal handler, whose signal frame lies between the
 * two entries, or the first entry no longer exists. */
static bool was_left_behind(const struct tide_local *local, uintptr_t here)
{
    return local->guard == UP && here + SIGNAL_FRAME > local->entered_at &&
           is_within(here, local->stack_low, local->stack_high) &&
           is_within(local->entered_at, local->stack_low, local->stack_high);
}

static bool enter(struct tide_local *local)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (local->guard && was_left_behind(local, here))
        local->guard = DOWN;
    if (local->guard) {
        struct tide_heap_head *table = local->guard == UP ? tide_ledger_table() : NULL;
        if (table)
            tide_ledger_count(&table->nested);
        return false;
    }
    local->entered_at = here;
    local->guard = UP;
    atomic_signal_fence(memory_order_seq_cst);
    local->saved_errno = errno; /* after the guard is up, when no signal handler overwrites it */
    return true;
}

/* A signal handler may interrupt either of these two functions at any instruction and call defer() itself. */
static bool defer(struct tide_local *local, const void *pointer)
{
    for (int i = 0; i < TIDE_RECORDER_DEFERRED; i++) {
        uintptr_t expected = 0;
        if (atomic_compare_exchange_strong_explicit(&local->deferred[i], &expected, (uintptr_t)pointer,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            atomic_store_explicit(&local->any_deferred, true, memory_order_relaxed);
            return true;
        }
    }
    return false;
}

static __attribute__((noinline, cold)) void forget_deferred(struct tide_local *local)
{
    struct tide_heap_head *table = tide_ledger_table();
    atomic_store_explicit(&local->any_deferred, false, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    for (int i = 0; i < TIDE_RECORDER_DEFERRED; i++) {
        uintptr_t key = atomic_exchange_explicit(&local->deferred[i], 0, memory_order_relaxed);
        if (key && table)
            tide_blocks_forget(table, (const void *)key);
    }
}

/* After the guard is down, a signal handler records its own frees instead of deferring them. */
void tide_recorder_leave(void)
{
    struct tide_local *local = &tide_local;
    int saved = local->saved_errno;
    for (;;) {
        atomic_signal_fence(memory_order_seq_cst);
        local->guard = DOWN;
        atomic_signal_fence(memory_order_seq_cst);
        if (__builtin_expect(!atomic_load_explicit(&local->any_deferred, memory_order_relaxed), 1))
            break;
        local->entered_at = (uintptr_t)__builtin_frame_address(0); /* a signal handler may have changed it */
        atomic_signal_fence(memory_order_seq_cst);
        local->guard = UP;
        atomic_signal_fence(memory_order_seq_cst);
        forget_deferred(local);
    }
    errno = saved;
}

/* ---- threads */

static void seed(struct tide_sampling *sampling)
{
    uint64_t state = seed_wanted ? seed_wanted
                                 : tide_hook_clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)(uintptr_t)sampling ^
                                       (uint64_t)getpid() << 40;
    state += atomic_fetch_add(&seeds, UINT64_C(0x9e3779b97f4a7c15));
    state = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    state = (state ^ state >> 27) * UINT64_C(0x94d049bb133111eb);
    sampling->random = (state ^ state >> 31) | 1;
}

/* Asks the C library for the thread's stack. That allocates a little and takes the thread's lock, so this is
 * called only after an allocation by the program itself, when no allocator holds a lock. */
static void ask_stack(struct tide_local *local)
{
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    local->guard = INTERNAL;
    local->stack_high = 1; /* an empty stack, if it cannot be found */
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        if (!pthread_attr_getstack(&attributes, &low, &bytes)) {
            local->stack_low = (uintptr_t)low;
            local->stack_high = (uintptr_t)low + bytes;
        }
        pthread_attr_destroy(&attributes);
    }
    local->guard = UP;
}

/* Reads /proc/self/maps one character at a time. Each line begins with "START-END " in hexadecimal. */
struct scan {
    uintptr_t number[2];
    unsigned which; /* which number the next digit belongs to; 2: the rest of the line */
};

/* True if the character ends the two numbers of a line and the address lies between them. */
static bool scan_one(struct scan *scan, char c, uintptr_t address)
{
    if (c == '\n') {
        *scan = (struct scan){{0, 0}, 0};
    } else if (scan->which < 2) {
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit < 16)
            scan->number[scan->which] = scan->number[scan->which] << 4 | digit;
        else if (++scan->which == 2)
            return address >= scan->number[0] && address < scan->number[1];
    }
    return false;
}

/* Uses raw system calls, because the C library's functions may be replaced, and are cancellation points. */
static bool find_mapping(uintptr_t address, uintptr_t *ret_low, uintptr_t *ret_high)
{
    struct scan scan = {{0, 0}, 0};
    char text[1024];
    bool found = false;
    long got, fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (!found && (got = syscall(SYS_read, fd, text, sizeof text)) > 0)
        for (long i = 0; i < got && !found; i++)
            found = scan_one(&scan, text[i], address);
    syscall(SYS_close, fd);
    if (found) {
        *ret_low = scan.number[0];
        *ret_high = scan.number[1];
    }
    return found;
}

/*
 * Finds the thread's stack without allocating and without a lock. The C library knows the stack, but
 * allocates when asked. A caller that maps memory may be an allocator that holds its own lock, and an
 * allocation by the C library would then wait for that lock for ever. So this asks the kernel for the mapping
 * that holds the stack pointer, and the C library only for the address of the thread's own data, which is at
 * the upper end of the stack. The time grows with the number of mappings: 0.1 to 1 ms, once for a thread that
 * maps before it allocates. A stack that the C library did not make for this thread (a coroutine's, the main
 * thread's) is not found; a later allocation may find it.
 */
static void find_stack(struct tide_local *local, uintptr_t here)
{
    uintptr_t low, high, own = (uintptr_t)pthread_self();
    if (own <= here || !find_mapping(here, &low, &high) || own >= high)
        return;
    local->stack_low = low;
    local->stack_high = own;
}

/* Returns the stack that sp is on: the thread's own, or the alternative signal stack. Any other stack (a
 * coroutine's) is not walked. */
static struct tide_unwind_stack stack_of(const struct tide_local *local, uintptr_t sp)
{
    struct tide_unwind_stack stack = {.low = local->stack_low, .high = local->stack_high};
    stack_t other;
    if (is_within(sp, stack.low, stack.high))
        return stack;
    stack.other_low = stack.low;
    stack.other_high = stack.high;
    stack.low = stack.high = 0;
    if (!sigaltstack(NULL, &other) && !(other.ss_flags & SS_DISABLE) &&
        is_within(sp, (uintptr_t)other.ss_sp, (uintptr_t)other.ss_sp + other.ss_size)) {
        stack.low = (uintptr_t)other.ss_sp;
        stack.high = stack.low + other.ss_size;
    }
    return stack;
}

/* ---- stacks */

static int32_t walk(struct tide_heap_head *table, struct tide_local *local, enum tide_site_kind kind,
                    struct tide_unwind_frame caller)
{
    struct tide_unwind_stack stack = stack_of(local, caller.sp);
    struct tide_unwind_trace trace = {.words = local->native, .room = TIDE_RECORDER_NATIVE};
    tide_unwind_walk(caller, &stack, &trace);
    local->uninterrupted = trace.complete && !trace.interrupted;
    size_t own = 0;
    while (own + 1 < trace.count && trace.words[own] > own_start && trace.words[own] <= own_end)
        own++;
    bool complete = trace.complete;
    size_t count = tide_pyframes_merge(table, trace.words + own, trace.count - own, local->merged,
                                       TIDE_HEAP_DEPTH, &complete);
    if (!complete)
        tide_ledger_count(&table->truncated);
    return tide_ledger_find(table, kind, local->merged, count, complete);
}

/* The hook's own memory grows as its tables fill, and must not be counted as the program's. */
static void count_own(struct tide_heap_head *table, uint64_t now)
{
    if (now < atomic_load_explicit(&counting.next_ns, memory_order_relaxed) ||
        atomic_exchange_explicit(&counting.is_busy, true, memory_order_acquire))
        return;
    atomic_store_explicit(&counting.next_ns, now + COUNT_NS, memory_order_relaxed);
    atomic_store_explicit(&table->own_bytes, tide_wiped_resident(), memory_order_relaxed);
    atomic_store_explicit(&table->table_bytes, tide_ledger_resident(table), memory_order_relaxed);
    atomic_store_explicit(&counting.is_busy, false, memory_order_release);
}

int32_t tide_recorder_site(struct tide_heap_head *table, enum tide_site_kind kind,
                           struct tide_unwind_frame caller)
{
    struct tide_local *local = &tide_local;
    uint64_t n = atomic_fetch_add_explicit(&table->unwinds, 1, memory_order_relaxed);
    uint64_t from = n % TIMED_EVERY ? 0 : tide_hook_clock_ns(CLOCK_MONOTONIC);
    int32_t site = walk(table, local, kind, caller);
    if (from) {
        uint64_t took_ns = tide_hook_clock_ns(CLOCK_MONOTONIC) - from;
        atomic_fetch_add_explicit(&table->unwind_ns, took_ns, memory_order_relaxed);
        tide_ledger_count(&table->unwinds_timed);
        atomic_store_explicit(&table->live_pointers, tide_pointers_totals.count, memory_order_relaxed);
    }
    uint64_t now = tide_hook_clock_ns(CLOCK_MONOTONIC_COARSE);
    count_own(table, now);
    tide_census_ask(now);
    return site;
}

/* ---- blocks */

/* Doubles the interval, so that fewer new entries are made. Existing entries stay until they are freed. */
static void no_room(struct tide_heap_head *table)
{
    tide_ledger_count(&table->dropped_pointers);
    if (atomic_fetch_add(&unplaced, 1) + 1 < COARSEN_AFTER)
        return;
    uint64_t old = atomic_load(&interval);
    if (old < INTERVAL_MOST && atomic_compare_exchange_strong(&interval, &old, 2 * old)) {
        atomic_store(&unplaced, 0);
        size_t exact = atomic_load(&tide_recorder_exact) * 2;
        atomic_store(&tide_recorder_exact, exact);
        atomic_store(&table->interval_bytes, 2 * old);
        atomic_store(&table->exact_bytes, exact);
        tide_ledger_setup.interval_bytes = 2 * old;
        tide_ledger_setup.exact_bytes = exact;
        tide_ledger_count(&table->coarsened);
    }
}

static void redraw(struct tide_local *local, struct tide_sampling *sampling)
{
    sampling->interval = (double)atomic_load_explicit(&interval, memory_order_relaxed);
    if (sampling == &local->tensors)
        sampling->interval *= TIDE_HEAP_TENSORS;
    sampling->left = tide_draw_next(&sampling->random, sampling->interval);
}

/* True if the block is to be recorded; then sets how much it counts for. Leaves `site` alone. */
static bool weigh(struct tide_local *local, struct tide_sampling *sampling, size_t bytes,
                  struct tide_pointers_block *ret_block)
{
    bool exact = sampling == &local->tensors
                     ? tide_recorder_tensor_is_exact(bytes)
                     : bytes >= atomic_load_explicit(&tide_recorder_exact, memory_order_relaxed);
    if (!local->stack_high)
        ask_stack(local);
    if (sampling->interval <= 0) {
        seed(sampling);
        redraw(local, sampling);
        if (!exact)
            sampling->left -= (int64_t)bytes;
    }
    if (exact) {
        *ret_block = (struct tide_pointers_block){.bytes = bytes, .blocks = 1};
        return true;
    }
    if (sampling->left >= 0)
        return false;
    double p = tide_draw_probability((double)bytes / sampling->interval);
    redraw(local, sampling);
    if (p <= 0)
        return false;
    double blocks = 1 / p;
    ret_block->bytes = tide_draw_round(&sampling->random, (double)bytes / p);
    ret_block->blocks = blocks < 0x1p31 ? (uint32_t)tide_draw_round(&sampling->random, blocks) : 0x80000000;
    return true;
}

bool tide_recorder_place(struct tide_heap_head *table, const void *pointer, struct tide_pointers_block block)
{
    struct tide_pointers_block old;
    enum tide_pointers_result result = tide_pointers_add(pointer, block, &old);
    if (result == TIDE_POINTERS_FULL)
        no_room(table);
    else if (result == TIDE_POINTERS_BUSY)
        tide_ledger_count(&table->dropped_pointers);
    if (result != TIDE_POINTERS_DONE)
        return false;
    if (old.blocks)
        tide_blocks_discount(table, old);
    tide_blocks_count(table, block, false);
    return true;
}

/* Only a stack that was walked to its end is known to have no signal handler on it. */
static void ask_allocator(struct tide_heap_head *table, struct tide_local *local)
{
    if (!local->uninterrupted || !tide_allocator_is_due())
        return;
    local->guard = INTERNAL;
    tide_allocator_ask(table);
    local->guard = UP;
}

void tide_recorder_allocated(enum tide_site_kind kind, const void *pointer, size_t bytes,
                             struct tide_unwind_frame caller)
{
    struct tide_local *local = &tide_local;
    struct tide_sampling *sampling = kind == TIDE_SITE_TENSOR ? &local->tensors : &local->blocks;
    int now = atomic_load_explicit(&phase, memory_order_acquire);
    if (now != RECORDING) {
        sampling->left = now == REFUSED ? INT64_MAX / 2 : -1;
        return;
    }
    if (!pointer || !enter(local))
        return;
    struct tide_heap_head *table = tide_ledger_table();
    struct tide_pointers_block block = {0};
    if (!table)
        sampling->left = RETRY_BYTES;
    else if (weigh(local, sampling, bytes, &block)) {
        int32_t site = tide_recorder_site(table, kind, caller);
        if (site >= 0) {
            block.site = (uint16_t)site;
            if (kind == TIDE_SITE_POOL)
                block.under = tide_blocks_under((uintptr_t)pointer);
            tide_recorder_place(table, kind == TIDE_SITE_MALLOC ? pointer : tide_pointers_pooled(pointer),
                                block);
        }
        ask_allocator(table, local);
    }
    tide_recorder_leave();
}

struct tide_pointers_block tide_recorder_take(const void *pointer)
{
    struct tide_local *local = &tide_local;
    struct tide_pointers_block block = {0};
    if (local->guard == UP && !was_left_behind(local, (uintptr_t)__builtin_frame_address(0))) {
        struct tide_heap_head *busy = NULL;
        if (!defer(local, pointer) && (busy = tide_ledger_table()))
            tide_ledger_count(&busy->lost_frees);
        return block;
    }
    if (!enter(local))
        return block;
    struct tide_heap_head *table = tide_ledger_table();
    if (table)
        block = tide_blocks_forget(table, pointer);
    tide_recorder_leave();
    return block;
}

void tide_recorder_put_back(const void *pointer, struct tide_pointers_block block)
{
    struct tide_local *local = &tide_local;
    struct tide_pointers_block old;
    if (!block.blocks || !enter(local))
        return;
    struct tide_heap_head *table = tide_ledger_table();
    if (table && tide_pointers_add(pointer, block, &old) == TIDE_POINTERS_DONE)
        tide_blocks_count(table, block, true);
    tide_recorder_leave();
}

bool tide_recorder_pause(void)
{
    struct tide_local *local = &tide_local;
    if (local->guard && !was_left_behind(local, (uintptr_t)__builtin_frame_address(0)))
        return false;
    local->guard = INTERNAL;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

void tide_recorder_resume(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    tide_local.guard = DOWN;
}

/* ---- for the other parts */

bool tide_recorder_works(void)
{
    return atomic_load_explicit(&phase, memory_order_acquire) == RECORDING;
}

struct tide_heap_head *tide_recorder_enter(void)
{
    struct tide_local *local = &tide_local;
    if (!tide_recorder_works() || !enter(local))
        return NULL;
    struct tide_heap_head *table = tide_ledger_table();
    if (!table)
        tide_recorder_leave();
    else if (!local->stack_high)
        find_stack(local, (uintptr_t)__builtin_frame_address(0));
    return table;
}

void tide_recorder_unloaded(void)
{
    tide_unwind_forget();
    tide_ledger_unloaded();
    tide_pyframes_unloaded();
    tide_census_unloaded();
}

/* ---- the beginning */

static void consider_object(const struct tide_object *object)
{
    tide_pyframes_consider(object);
    tide_census_consider(object);
}

static int consider(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    struct tide_object object;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X &&
            tide_object_find(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, &object)) {
            consider_object(&object);
            break;
        }
    return 0;
}

int tide_recorder_init(uint64_t interval_bytes, uint64_t first_seed)
{
    struct tide_object own;
    seed_wanted = first_seed;
    if (tide_wiped_init() || tide_wiped_declare(&counting, sizeof counting) || tide_latch_init() ||
        tide_ledger_init() || tide_pointers_init() || tide_ranges_init() || tide_pieces_init() ||
        tide_census_init())
        return -1;
    tide_unwind_init();
    if (tide_object_find((uintptr_t)tide_recorder_init, &own)) {
        own_start = own.start;
        own_end = own.end;
    }
    dl_iterate_phdr(consider, NULL);
    tide_ledger_on_object = consider_object;
    tide_ledger_setup.interval_bytes = interval_bytes;
    tide_ledger_setup.exact_bytes = interval_bytes / 4 ? interval_bytes / 4 : 1;
    atomic_store(&interval, interval_bytes);
    ask_stack(&tide_local);
    tide_local.guard = DOWN;
    return 0;
}

void tide_recorder_start(enum tide_heap_state state)
{
    int saved = errno;
    tide_ledger_setup.state = state;
    bool works = tide_ledger_table() &&
                 (state == TIDE_HEAP_ON || state == TIDE_HEAP_REPLACED || state == TIDE_HEAP_OWN_NEW);
    if (works)
        atomic_store(&tide_recorder_exact, tide_ledger_setup.exact_bytes);
    atomic_store_explicit(&phase, works ? RECORDING : REFUSED, memory_order_release);
    errno = saved;
}

void tide_recorder_refuse(void)
{
    atomic_store_explicit(&phase, REFUSED, memory_order_release);
}
