/*
 * wiped.c - memory a child finds empty (wiped.h).
 */
#include "hook/wiped.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { AREAS_MOST = 16 };

/* Areas that the kernel would not wipe (before Linux 4.14): done by hand, at forks that the C library sees.
 */
static struct {
    void *storage;
    size_t bytes;
} by_hand[AREAS_MOST];
static size_t by_hand_count;

static void wipe_by_hand(void)
{
    for (size_t i = 0; i < by_hand_count; i++)
        madvise(by_hand[i].storage, by_hand[i].bytes, MADV_DONTNEED);
}

int tide_wiped_declare(void *storage, size_t bytes)
{
    if ((uintptr_t)storage % 4096 || bytes % 4096)
        return -1;
    if (!madvise(storage, bytes, MADV_WIPEONFORK))
        return 0;
    if (by_hand_count == AREAS_MOST || (!by_hand_count && pthread_atfork(NULL, NULL, wipe_by_hand)))
        return -1;
    by_hand[by_hand_count].storage = storage;
    by_hand[by_hand_count++].bytes = bytes;
    return 0;
}

void *tide_wiped_map(size_t bytes)
{
    long at =
        syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);
    if (at == -1)
        return NULL;
    madvise((void *)at, bytes, MADV_WIPEONFORK);
    return (void *)at;
}

void tide_wiped_unmap(void *memory, size_t bytes)
{
    syscall(SYS_munmap, memory, bytes);
}
