#include "hook/wiped.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { AREAS_MOST = 24, MAPPINGS_MOST = 96, PAGE = 4096, ENTRIES = 256 };

/* by_hand: the kernel cannot wipe it (before Linux 4.14), so it is wiped at forks that the C library sees. */
static struct {
    void *storage;
    size_t bytes;
    bool by_hand;
} areas[AREAS_MOST];
static atomic_size_t area_count;
static bool sees_forks;

/* The mapped memory, and a buffer for entries of /proc/self/pagemap. */
static struct TIDE_WIPED {
    struct {
        _Atomic uintptr_t start; /* 0: free, 1: being filled */
        size_t bytes;
    } mapped[MAPPINGS_MOST];
    uint64_t entries[ENTRIES];
} self;

static void wipe_by_hand(void)
{
    for (size_t i = 0; i < area_count; i++)
        if (areas[i].by_hand)
            madvise(areas[i].storage, areas[i].bytes, MADV_DONTNEED);
}

static int add_area(void *storage, size_t bytes, bool by_hand)
{
    size_t at = atomic_load(&area_count);
    if (at == AREAS_MOST)
        return -1;
    areas[at].storage = storage;
    areas[at].bytes = bytes;
    areas[at].by_hand = by_hand;
    atomic_store(&area_count, at + 1); /* after the fields, because other threads may be counting */
    return 0;
}

int tide_wiped_init(void)
{
    return tide_wiped_declare(&self, sizeof self);
}

int tide_wiped_declare(void *storage, size_t bytes)
{
    if ((uintptr_t)storage % PAGE || bytes % PAGE)
        return -1;
    bool by_hand = madvise(storage, bytes, MADV_WIPEONFORK) != 0;
    if (by_hand && !sees_forks && pthread_atfork(NULL, NULL, wipe_by_hand))
        return -1;
    sees_forks |= by_hand;
    return add_area(storage, bytes, by_hand);
}

void tide_wiped_count(void *storage, size_t bytes)
{
    add_area(storage, bytes, false);
}

void *tide_wiped_map(size_t bytes)
{
    long at =
        syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);
    if (at == -1)
        return NULL;
    madvise((void *)at, bytes, MADV_WIPEONFORK);
    for (size_t i = 0; i < MAPPINGS_MOST; i++) {
        uintptr_t expected = 0;
        if (!atomic_compare_exchange_strong(&self.mapped[i].start, &expected, 1))
            continue;
        self.mapped[i].bytes = bytes;
        atomic_store_explicit(&self.mapped[i].start, (uintptr_t)at, memory_order_release);
        break;
    }
    return (void *)at;
}

void tide_wiped_unmap(void *memory, size_t bytes)
{
    for (size_t i = 0; i < MAPPINGS_MOST; i++) {
        uintptr_t expected = (uintptr_t)memory;
        if (atomic_compare_exchange_strong(&self.mapped[i].start, &expected, 0))
            break;
    }
    syscall(SYS_munmap, memory, bytes);
}

/* ---- how much of it there is */

/* A page that was only read is the kernel's zero page, which is not exclusive to any process. */
#define PAGE_PRESENT   (UINT64_C(1) << 63)
#define PAGE_SWAPPED   (UINT64_C(1) << 62)
#define PAGE_EXCLUSIVE (UINT64_C(1) << 56)

static uint64_t pages_of(long fd, uintptr_t start, size_t bytes)
{
    uint64_t found = 0;
    uintptr_t page = start / PAGE, end = (start + bytes + PAGE - 1) / PAGE;
    while (page < end) {
        size_t some = end - page < ENTRIES ? end - page : ENTRIES;
        long got = syscall(SYS_pread64, fd, self.entries, some * 8, (off_t)page * 8);
        if (got <= 0)
            break;
        for (long i = 0; i < got / 8; i++)
            found += self.entries[i] & PAGE_SWAPPED ||
                     (self.entries[i] & PAGE_PRESENT && self.entries[i] & PAGE_EXCLUSIVE);
        page += (uintptr_t)got / 8;
    }
    return found;
}

uint64_t tide_wiped_resident(void)
{
    uint64_t pages = 0;
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    for (size_t i = 0; i < area_count; i++)
        pages += pages_of(fd, (uintptr_t)areas[i].storage, areas[i].bytes);
    for (size_t i = 0; i < MAPPINGS_MOST; i++) {
        uintptr_t start = atomic_load_explicit(&self.mapped[i].start, memory_order_acquire);
        if (start > 1)
            pages += pages_of(fd, start, self.mapped[i].bytes);
    }
    syscall(SYS_close, fd);
    return pages * PAGE;
}
