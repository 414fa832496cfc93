/*
 * mark.c - the writing end of the channel: what libtidemark is (tidemark.h is its manual, lane.h the
 * protocol).
 *
 * It lives inside other people's programs, so:
 * - Where the process has its lane mapped is kept in a page of its own that the kernel wipes in every child
 *   (MADV_WIPEONFORK): a child finds itself without a lane and makes one, however it was forked. The parent's
 *   lane stays mapped in the child: a child forked out of a signal handler may still have to finish writing
 *   the mark that the handler interrupted.
 * - The lane's blocks are allocated before it is mapped, because a write to a sparse file on a full memory
 *   file system would be a SIGBUS, and only under a file size limit that allows it, because the other answer
 *   is SIGXFSZ. All its pages are mapped at once: a lane that became resident slot by slot would look like a
 *   leak of 128 bytes per mark.
 * - Nothing waits for the tracker. Two threads that reach the same slot, one a whole ring later than the
 *   other, are kept apart by claiming the slot; the one that finds it taken goes on to the next.
 */
#include "tidemark.h"
#include "channel/birth.h"
#include "channel/lane.h"
#include "channel/space.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* The thread sanitizer knows no fences; it needs none either, since who reads is another process. */
#if defined(__SANITIZE_THREAD__)
#define FENCE() ((void)0)
#else
#define FENCE() atomic_thread_fence(memory_order_release)
#endif

_Static_assert(TIDE_NAME_MAX + 1 == TIDE_LANE_NAME, "a name and its NUL fill the slot");

enum {
    CLAIM_TRIES = 8,     /* slots tried before a mark is given up */
    ATTACH_YIELDS = 1000 /* how long a thread lets another one attach before its mark is given up */
};

struct anchor {
    struct tide_lane_head *_Atomic lane; /* NULL: this process has none yet */
    atomic_bool attaching;
};

/* Once true it stays true, in this process and in its children. */
static atomic_bool off;
static struct anchor *_Atomic anchor;

static void forget_lane(void)
{
    struct anchor *page = atomic_load(&anchor);
    if (page) {
        atomic_store(&page->lane, NULL);
        atomic_store(&page->attaching, false);
    }
}

/* The anchor, made at the first call. NULL if the system gives no page. Several threads may make one; one
 * wins. */
static struct anchor *anchor_of_process(void)
{
    struct anchor *page = atomic_load(&anchor), *none = NULL;
    if (page)
        return page;
    long bytes = sysconf(_SC_PAGESIZE);
    page = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    bool forks_seen =
        !madvise(page, (size_t)bytes, MADV_WIPEONFORK) || !pthread_atfork(NULL, NULL, forget_lane);
    if (forks_seen && atomic_compare_exchange_strong(&anchor, &none, page))
        return page;
    munmap(page, (size_t)bytes);
    return none;
}

/* Blocks for the whole lane, so that no later write can fail. */
static int allocate_lane(int fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < TIDE_LANE_BYTES)
        return -1;
    if (!fallocate(fd, 0, 0, TIDE_LANE_BYTES))
        return 0;
    if (errno != EOPNOTSUPP)
        return -1;
    static const char zeros[sizeof(struct tide_lane_slot)];
    for (size_t at = 0; at < TIDE_LANE_BYTES; at += sizeof zeros)
        if (pwrite(fd, zeros, sizeof zeros, (off_t)at) != (ssize_t)sizeof zeros)
            return -1;
    return 0;
}

/* The lock tells the tracker that somebody still has the lane; it lives as long as the map, in this process
 * and in its children. */
static struct tide_lane_head *map_lane(int fd)
{
    flock(fd, LOCK_EX | LOCK_NB);
    void *lane = mmap(NULL, TIDE_LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    return lane == MAP_FAILED ? NULL : lane;
}

/* *ret_full: there is no room for one after all. */
static struct tide_lane_head *create_lane(int directory, const char *name, uint64_t start_ticks,
                                          bool *ret_full)
{
    int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    struct tide_lane_head *lane = NULL;
    bool taken = !fchmod(fd, 0600) && !allocate_lane(fd), kept = taken && tide_space_keeps(directory);
    if (kept)
        lane = map_lane(fd);
    if (!lane)
        unlinkat(directory, name, 0);
    close(fd);
    *ret_full = taken && !kept;
    if (!lane)
        return NULL;
    lane->pid = (uint32_t)getpid();
    lane->slot_count = TIDE_LANE_SLOTS;
    lane->start_ticks = start_ticks;
    __atomic_store_n(&lane->magic, TIDE_LANE_MAGIC, __ATOMIC_RELEASE);
    return lane;
}

/* The lane that this process made before it called exec. */
static struct tide_lane_head *reopen_lane(int directory, const char *name, uint64_t start_ticks)
{
    int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct stat is;
    struct tide_lane_head *lane = NULL;
    if (!fstat(fd, &is) && S_ISREG(is.st_mode) && is.st_uid == geteuid() && is.st_size == TIDE_LANE_BYTES &&
        is.st_blocks * 512 >= is.st_size)
        lane = map_lane(fd);
    close(fd);
    if (lane && (lane->magic != TIDE_LANE_MAGIC || lane->pid != (uint32_t)getpid() ||
                 lane->start_ticks != start_ticks || lane->slot_count != TIDE_LANE_SLOTS)) {
        munmap(lane, TIDE_LANE_BYTES);
        lane = NULL;
    }
    return lane;
}

static void say_full(int directory, const char *name)
{
    char full[96] = TIDE_SPACE_FULL;
    strcat(full, name);
    int fd = openat(directory, full, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

static struct tide_lane_head *make_lane(void)
{
    const char *path = secure_getenv(TIDE_CHANNEL_ENV);
    uint64_t start_ticks;
    if (!path || path[0] != '/' || tide_birth_read(0, &start_ticks))
        return NULL;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return NULL;
    char name[64] = "marks-";
    char *end = tide_birth_digits(name + strlen(name), (uint64_t)getpid());
    *end++ = '-';
    *tide_birth_digits(end, start_ticks) = '\0';
    int spare = tide_space_open(directory, TIDE_SPACE_SPARE);
    struct tide_lane_head *lane = reopen_lane(directory, name, start_ticks);
    if (!lane && spare >= 0)
        lane = reopen_lane(spare, name, start_ticks);
    bool full = !tide_space_for(directory, tide_space_is_shared(directory), TIDE_LANE_BYTES);
    bool spare_full = spare < 0 || !tide_space_for(spare, false, TIDE_LANE_BYTES);
    if (!lane && !full)
        lane = create_lane(directory, name, start_ticks, &full);
    if (!lane && !spare_full)
        lane = create_lane(spare, name, start_ticks, &spare_full);
    if (!lane && full && spare_full)
        say_full(directory, name);
    if (spare >= 0)
        close(spare);
    close(directory);
    return lane;
}

/* The slow half of every call: the lane, or NULL when there is no tracker (and then `off` is set) or when
 * another thread takes too long to attach. */
static __attribute__((noinline, cold)) struct tide_lane_head *attach(void)
{
    struct anchor *page = anchor_of_process();
    if (!page) {
        atomic_store(&off, true);
        return NULL;
    }
    for (int yields = 0; atomic_exchange(&page->attaching, true); yields++) {
        if (atomic_load(&page->lane) || atomic_load(&off) || yields == ATTACH_YIELDS)
            return atomic_load(&page->lane);
        sched_yield();
    }
    struct tide_lane_head *lane = atomic_load(&page->lane);
    if (!lane) {
        /* No handler may fork or unwind out of the middle of this. */
        sigset_t all, before;
        int cancel, saved = errno;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        lane = make_lane();
        if (!lane)
            atomic_store(&off, true);
        atomic_store(&page->lane, lane);
        pthread_setcancelstate(cancel, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        errno = saved;
    }
    atomic_store(&page->attaching, false);
    return lane;
}

static inline struct tide_lane_head *lane_of_process(void)
{
    if (atomic_load_explicit(&off, memory_order_relaxed))
        return NULL;
    struct anchor *page = atomic_load_explicit(&anchor, memory_order_acquire);
    struct tide_lane_head *lane = page ? atomic_load_explicit(&page->lane, memory_order_acquire) : NULL;
    return lane ? lane : attach();
}

/* The next slot, marked as being written, and its number. NULL if all that were tried are being written or
 * were already passed by a whole ring. */
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
    FENCE(); /* the new head must be seen before any new byte of the slot */
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
    put(TIDE_LANE_STEP, n, NULL);
}

void tide_epoch(int64_t n)
{
    put(TIDE_LANE_EPOCH, n, NULL);
}

void tide_phase_begin(const char *name)
{
    put(TIDE_LANE_PHASE_BEGIN, 0, name);
}

void tide_phase_end(const char *name)
{
    put(TIDE_LANE_PHASE_END, 0, name);
}

void tide_items(int64_t seen)
{
    put(TIDE_LANE_ITEMS, seen, NULL);
}

void tide_gauge(const char *name, int64_t bytes)
{
    put(TIDE_LANE_GAUGE, bytes, name);
}

int tide_tracked(void)
{
    return lane_of_process() != NULL;
}
