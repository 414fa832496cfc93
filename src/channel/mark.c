/*
 * mark.c - the writing end of the channel, libtidemark (tidemark.h is its manual, lane.h the protocol).
 *
 * It runs inside other people's programs, so:
 * - The pointer to the mapped lane is in a page of its own that the kernel wipes in every child
 *   (MADV_WIPEONFORK). So a child finds itself without a lane and makes one, however it was forked. The
 *   parent's lane stays mapped in the child, because a child forked in a signal handler may still have to
 *   finish the mark that the handler interrupted.
 * - The lane's blocks are allocated before it is mapped, because a write to a sparse file on a full memory
 *   file system raises SIGBUS. All its pages are mapped at once, because a lane that became resident slot by
 *   slot would look like a leak of 128 bytes per mark.
 * - Nothing waits for the tracker. Two threads can reach the same slot, one of them a whole ring later. The
 *   first to claim it writes; the other one takes the next slot.
 */
#include "tidemark.h"
#include "channel/file.h"
#include "channel/lane.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* ThreadSanitizer does not support fences. It needs none, because the reader is another process. */
#if defined(__SANITIZE_THREAD__)
#define FENCE() ((void)0)
#else
#define FENCE() atomic_thread_fence(memory_order_release)
#endif

_Static_assert(TIDE_NAME_MAX + 1 == TIDE_LANE_NAME, "a name and its NUL fill the slot");

enum {
    CLAIM_TRIES = 8,     /* slots tried before a mark is dropped */
    ATTACH_YIELDS = 1000 /* how long a thread waits for another one to attach before its mark is dropped */
};

/* Once true, stays true, in this process and in its children. */
static atomic_bool off;

/* Fills a page, which the kernel wipes in a child. */
static struct __attribute__((aligned(4096))) {
    struct tide_lane_head *_Atomic lane; /* NULL: this process has none yet */
    atomic_bool attaching;
} anchor;

static void forget_lane(void)
{
    atomic_store(&anchor.lane, NULL);
    atomic_store(&anchor.attaching, false);
}

/* True if a forked child will begin without a lane. Several threads may ask for that; it is done twice then.
 */
static bool forgets_at_fork(void)
{
    static atomic_bool does;
    if (!atomic_load(&does))
        atomic_store(&does, !madvise(&anchor, sizeof anchor, MADV_WIPEONFORK) ||
                                !pthread_atfork(NULL, NULL, forget_lane));
    return atomic_load(&does);
}

static struct tide_lane_head *create_lane(struct tide_file_own *own, int place)
{
    int fd = tide_file_create(own->places[place], own->name, TIDE_LANE_BYTES);
    if (fd < 0)
        return NULL;
    struct tide_lane_head *lane = NULL;
    /* Allocates blocks for the whole lane, so that no later write can fail. */
    if (!posix_fallocate(fd, 0, TIDE_LANE_BYTES) && tide_file_may_take(own, place, 0))
        lane = tide_file_map(fd, TIDE_LANE_BYTES, MAP_POPULATE);
    if (!lane)
        unlinkat(own->places[place], own->name, 0);
    close(fd);
    if (!lane)
        return NULL;
    lane->pid = (uint32_t)getpid();
    lane->slot_count = TIDE_LANE_SLOTS;
    lane->start_ticks = own->start_ticks;
    __atomic_store_n(&lane->magic, TIDE_LANE_MAGIC, __ATOMIC_RELEASE);
    return lane;
}

/* Opens the lane that this process made before it called exec. */
static struct tide_lane_head *reopen_lane(const struct tide_file_own *own, int place)
{
    int fd = tide_file_open(own->places[place], own->name, TIDE_LANE_BYTES, O_RDWR);
    if (fd < 0)
        return NULL;
    struct stat is;
    struct tide_lane_head *lane = NULL;
    if (!fstat(fd, &is) && is.st_uid == geteuid() && is.st_blocks * 512 >= is.st_size)
        lane = tide_file_map(fd, TIDE_LANE_BYTES, MAP_POPULATE);
    close(fd);
    if (lane && (lane->magic != TIDE_LANE_MAGIC || lane->pid != (uint32_t)getpid() ||
                 lane->start_ticks != own->start_ticks || lane->slot_count != TIDE_LANE_SLOTS)) {
        munmap(lane, TIDE_LANE_BYTES);
        lane = NULL;
    }
    return lane;
}

static struct tide_lane_head *make_lane(void)
{
    const char *path = secure_getenv(TIDE_CHANNEL_ENV);
    struct tide_file_own own;
    if (!path || path[0] != '/' || tide_file_begin(path, TIDE_FILE_MARKS, &own))
        return NULL;
    struct tide_lane_head *lane = NULL;
    for (int i = 0; i < TIDE_FILE_PLACES && !lane; i++)
        lane = reopen_lane(&own, i);
    for (int i = 0; i < TIDE_FILE_PLACES && !lane; i++)
        if (tide_file_may_take(&own, i, TIDE_LANE_BYTES))
            lane = create_lane(&own, i);
    tide_file_end(&own, lane != NULL);
    return lane;
}

static void attach_lane(void)
{
    struct tide_lane_head *lane = make_lane();
    if (!lane)
        atomic_store(&off, true);
    atomic_store(&anchor.lane, lane);
}

/* The slow path of every call. Returns the lane, or NULL if there is no tracker (this sets `off`) or another
 * thread takes too long to attach. */
static __attribute__((noinline, cold)) struct tide_lane_head *attach(void)
{
    if (!forgets_at_fork()) {
        atomic_store(&off, true);
        return NULL;
    }
    for (int yields = 0; atomic_exchange(&anchor.attaching, true); yields++) {
        if (atomic_load(&anchor.lane) || atomic_load(&off) || yields == ATTACH_YIELDS)
            return atomic_load(&anchor.lane);
        sched_yield();
    }
    if (!atomic_load(&anchor.lane))
        tide_file_attach(attach_lane);
    atomic_store(&anchor.attaching, false);
    return atomic_load(&anchor.lane);
}

static inline struct tide_lane_head *lane_of_process(void)
{
    if (atomic_load_explicit(&off, memory_order_relaxed))
        return NULL;
    struct tide_lane_head *lane = atomic_load_explicit(&anchor.lane, memory_order_acquire);
    return lane ? lane : attach();
}

/* Returns the next slot, marked as busy, and its number. NULL if all slots tried are being written or were
 * passed by a whole ring. */
static inline struct tide_lane_slot *claim(struct tide_lane_head *lane, uint64_t *ret_number)
{
    struct tide_lane_slot *slots = (struct tide_lane_slot *)(lane + 1);
    for (int tries = 0; tries < CLAIM_TRIES; tries++) {
        uint64_t n = atomic_fetch_add_explicit(&lane->head, 1, memory_order_relaxed);
        struct tide_lane_slot *slot = &slots[n % TIDE_LANE_SLOTS];
        uint64_t old = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
        if (old <= n && atomic_compare_exchange_strong_explicit(&slot->sequence, &old, TIDE_LANE_BUSY,
                                                                memory_order_acquire, memory_order_relaxed)) {
            *ret_number = n;
            return slot;
        }
    }
    return NULL;
}

static inline void put(uint32_t kind, int64_t number, const char *name)
{
    struct tide_lane_head *lane = lane_of_process();
    if (!lane)
        return;
    struct timespec now;
    uint64_t n;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct tide_lane_slot *slot = claim(lane, &n);
    if (!slot)
        return;
    FENCE(); /* the new head must be visible before any new byte of the slot */
    slot->t_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    slot->number = number;
    slot->kind = kind;
    slot->tid = 0;
    size_t len = name ? strnlen(name, TIDE_NAME_MAX) : 0;
    if (len)
        memcpy(slot->name, name, len);
    slot->name[len] = '\0';
    atomic_store_explicit(&slot->sequence, n + 1, memory_order_release);
}

void tide_step(int64_t n)
{
    put(TIDE_MARK_STEP, n, NULL);
}

void tide_epoch(int64_t n)
{
    put(TIDE_MARK_EPOCH, n, NULL);
}

void tide_phase_begin(const char *name)
{
    put(TIDE_MARK_PHASE_BEGIN, 0, name);
}

void tide_phase_end(const char *name)
{
    put(TIDE_MARK_PHASE_END, 0, name);
}

void tide_items(int64_t seen)
{
    put(TIDE_MARK_ITEMS, seen, NULL);
}

void tide_gauge(const char *name, int64_t bytes)
{
    put(TIDE_MARK_GAUGE, bytes, name);
}

int tide_tracked(void)
{
    return lane_of_process() != NULL;
}
