/*
 * mappings.c - anonymous mappings that are cut, overlaid, moved, reserved and opened: mappings MODE.
 *
 * Each mode ends with the live bytes and pieces that its comment says; the test has the same numbers.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VISIBLE __attribute__((noinline, visibility("default")))
#define MIB     ((size_t)1 << 20)
#define GIB     ((size_t)1 << 30)

enum { NONE = PROT_NONE, BOTH = PROT_READ | PROT_WRITE };

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "mappings: %s: %s\n", what, strerror(errno));
        _exit(3);
    }
}

VISIBLE char *map(size_t bytes, int protection, int flags)
{
    char *p = mmap(NULL, bytes, protection, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED, "mmap");
    return p;
}

VISIBLE void overlay(char *at, size_t bytes, int protection)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    check(mmap(at, bytes, protection, flags, -1, 0) == at, "overlay");
}

VISIBLE char *move(char *from, size_t old_bytes, size_t bytes, int flags, char *to)
{
    char *p = mremap(from, old_bytes, bytes, flags, to);
    check(p != MAP_FAILED, "mremap");
    return p;
}

VISIBLE void commit(char *at, size_t bytes, int protection)
{
    check(!mprotect(at, bytes, protection), "mprotect");
}

static void unmap(char *at, size_t bytes)
{
    check(!munmap(at, bytes), "munmap");
}

/* 6 in 1. */
static void shared(void)
{
    void *p = mmap(NULL, 6 * MIB, BOTH, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(p != MAP_FAILED, "mmap");
}

/* 4 in 3: 1 MiB at each end of 4, and 2 MiB of which head and tail were cut. */
static void cut(void)
{
    char *middle = map(4 * MIB, BOTH, 0), *ends = map(4 * MIB, BOTH, 0);
    unmap(middle + MIB, 2 * MIB);
    unmap(ends, MIB);
    unmap(ends + 3 * MIB, MIB);
    unmap(map(8 * MIB, BOTH, 0), 8 * MIB);
    errno = 0;
    check(munmap(middle + 1, 10) == -1 && errno == EINVAL, "a munmap that cannot be");
}

/* 2 in 2: one munmap across the gap between two mappings and parts of both. */
static void across(void)
{
    char *space = map(8 * MIB, NONE, 0);
    overlay(space, 2 * MIB, BOTH);
    overlay(space + 4 * MIB, 2 * MIB, BOTH);
    unmap(space + MIB, 4 * MIB);
}

/* 6 in 4: 1 + 1 of the first around 2 of another, and 2 of 3 whose end became a file's. */
static void overlaid(void)
{
    char *first = map(4 * MIB, BOTH, 0), *second = map(3 * MIB, BOTH, 0);
    overlay(first + MIB, 2 * MIB, BOTH);
    FILE *file = tmpfile();
    check(file && !ftruncate(fileno(file), (off_t)MIB), "a file");
    check(mmap(second + 2 * MIB, MIB, BOTH, MAP_SHARED | MAP_FIXED, fileno(file), 0) == second + 2 * MIB,
          "a file's mapping");
}

/* 5 in 1, at move. */
static void grown(void)
{
    char *p = move(map(MIB, BOTH, 0), MIB, 5 * MIB, MREMAP_MAYMOVE, NULL);
    p[5 * MIB - 1] = 1;
}

/* 1 in 1, at move. */
static void shrunk(void)
{
    move(map(4 * MIB, BOTH, 0), 4 * MIB, MIB, 0, NULL);
}

/* 3 in 1, at move: over another mapping, which is gone. */
static void moved_over(void)
{
    char *target = map(3 * MIB, BOTH, 0);
    move(map(2 * MIB, BOTH, 0), 2 * MIB, 3 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, target);
}

/* 2 in 1, at map: a move that fails changes nothing. */
static void not_moved(void)
{
    char *p = map(2 * MIB, BOTH, 0);
    errno = 0;
    check(mremap(p, 2 * MIB, (size_t)1 << 50, MREMAP_MAYMOVE) == MAP_FAILED, "a move that cannot be");
}

/* 3 in 2, at overlay and commit: a reservation that could not move either can still be opened. */
static void not_moved_in_part(void)
{
    char *p = map(8 * MIB, NONE, 0);
    overlay(p, 2 * MIB, BOTH);
    check(mremap(p, 8 * MIB, (size_t)1 << 50, MREMAP_MAYMOVE) == MAP_FAILED, "a move that cannot be");
    commit(p + 4 * MIB, MIB, BOTH);
}

/* 2 in 1, at move: the rest is still a reservation. */
static void moved_in_part(void)
{
    char *p = map(2 * GIB, BOTH, MAP_NORESERVE), *to = map(2 * GIB, NONE, MAP_NORESERVE);
    commit(p, 2 * MIB, BOTH);
    move(p, 2 * GIB, 2 * GIB, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

/* 8 in 8 and 2 lost: more pieces than are kept while it is unknown whether they move. */
static void not_moved_many(void)
{
    char *p = map(10 * MIB, NONE, 0);
    for (size_t i = 0; i < 10; i++)
        overlay(p + i * MIB, MIB, BOTH);
    check(mremap(p, 10 * MIB, (size_t)1 << 50, MREMAP_MAYMOVE) == MAP_FAILED, "a move that cannot be");
}

/* Nothing: address space is not memory. */
static void reserved(void)
{
    map(64 * GIB, NONE, MAP_NORESERVE);
    map(64 * GIB, NONE, 0);
    map(2 * GIB, BOTH, MAP_NORESERVE);
    map(MIB, BOTH, MAP_STACK);
    char *p = map(GIB, NONE, 0);
    commit(p, GIB, PROT_READ);
}

/* 8 in 1. */
static void small_noreserve(void)
{
    map(8 * MIB, BOTH, MAP_NORESERVE);
}

/* 3 in 1, at commit: page after page of a reservation is opened, some of it twice. */
static void opened(void)
{
    char *space = map(64 * GIB, NONE, MAP_NORESERVE);
    for (size_t at = 0; at < 3 * MIB; at += 65536)
        commit(space + GIB + at, 65536, BOTH);
    commit(space + GIB, MIB, BOTH);
    commit(space + GIB, MIB, PROT_READ);
    memset(space + GIB + MIB, 1, 2 * MIB);
}

/* 2 in 1, at overlay. */
static void opened_by_overlay(void)
{
    overlay(map(64 * GIB, NONE, 0) + GIB, 2 * MIB, BOTH);
}

/* 2 in 2: of 4, the end is closed by mprotect; of 4, all by an overlay; then 1 of the 4 opened again. */
static void closed(void)
{
    char *end = map(4 * MIB, NONE, 0), *all = map(4 * MIB, BOTH, 0);
    commit(end, 4 * MIB, BOTH);
    commit(end + MIB, 3 * MIB, NONE);
    overlay(all, 4 * MIB, NONE);
    commit(all + MIB, MIB, BOTH);
}

/* 1 in 1, at commit: a reservation that was moved is still one. */
static void moved_reservation(void)
{
    char *target = map(8 * MIB, NONE, 0);
    char *space = move(map(8 * MIB, NONE, 0), 8 * MIB, 8 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    commit(space + MIB, MIB, BOTH);
}

/* 16 in 1: pages that are given back can be written again without asking. Says what is resident of them. */
static void dropped(void)
{
    char *p = map(16 * MIB, BOTH, 0);
    unsigned char present[4096];
    size_t resident = 0;
    memset(p, 1, 16 * MIB);
    check(!madvise(p, 16 * MIB, MADV_DONTNEED), "madvise");
    check(!mincore(p, 16 * MIB, present), "mincore");
    for (size_t i = 0; i < sizeof present; i++)
        resident += present[i] & 1;
    printf("%zu\n", resident);
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"shared", shared},
    {"cut", cut},
    {"across", across},
    {"overlaid", overlaid},
    {"grown", grown},
    {"shrunk", shrunk},
    {"moved_over", moved_over},
    {"not_moved", not_moved},
    {"reserved", reserved},
    {"small_noreserve", small_noreserve},
    {"opened", opened},
    {"opened_by_overlay", opened_by_overlay},
    {"closed", closed},
    {"moved_reservation", moved_reservation},
    {"dropped", dropped},
    {"not_moved_in_part", not_moved_in_part},
    {"moved_in_part", moved_in_part},
    {"not_moved_many", not_moved_many},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            modes[i].run();
            return 0;
        }
    fprintf(stderr, "mappings: no such mode\n");
    return 2;
}
