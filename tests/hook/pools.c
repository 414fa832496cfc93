/*
 * pools.c - programs with an arena of their own that they tell the hook about: pools MODE [ARGUMENT...].
 *
 * As target.c: each ends by itself with 0, and the test reads the table it left. The arena is that of many
 * small trainers: chunks from malloc or mmap, blocks one after another, all of them dropped at once.
 */
#include "tidemark.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define VISIBLE __attribute__((noinline, visibility("default")))
#define MIB     ((size_t)1 << 20)

enum { CHUNKS_MOST = 4096 };

struct arena {
    size_t chunk_bytes, used, count;
    bool mapped;
    char *chunks[CHUNKS_MOST];
};

static void *volatile kept;

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "pools: %s: %s\n", what, strerror(errno));
        _exit(3);
    }
}

VISIBLE char *chunk_new(struct arena *arena)
{
    char *chunk;
    if (arena->mapped) {
        chunk = mmap(NULL, arena->chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(chunk != MAP_FAILED, "mmap");
    } else {
        chunk = malloc(arena->chunk_bytes);
        check(chunk != NULL, "malloc");
    }
    tide_pool_chunk(chunk, arena->chunk_bytes);
    memset(chunk, 1, arena->chunk_bytes);
    return chunk;
}

VISIBLE void *arena_alloc(struct arena *arena, size_t bytes)
{
    if (!arena->count || arena->used + bytes > arena->chunk_bytes) {
        check(arena->count < CHUNKS_MOST, "too many chunks");
        arena->chunks[arena->count++] = chunk_new(arena);
        arena->used = 0;
    }
    void *pointer = arena->chunks[arena->count - 1] + arena->used;
    arena->used += bytes;
    tide_pool_alloc(pointer, bytes);
    return pointer;
}

static void arena_clear(struct arena *arena)
{
    for (size_t i = 0; i < arena->count; i++)
        tide_pool_clear(arena->chunks[i], arena->chunk_bytes);
    arena->used = 0;
}

static void arena_release(struct arena *arena)
{
    for (size_t i = 0; i < arena->count; i++)
        if (arena->mapped)
            munmap(arena->chunks[i], arena->chunk_bytes);
        else
            free(arena->chunks[i]);
    arena->count = arena->used = 0;
}

VISIBLE void hold_blocks(struct arena *arena, long count, size_t bytes)
{
    for (long i = 0; i < count; i++)
        kept = arena_alloc(arena, bytes);
}

VISIBLE void pass_blocks(struct arena *arena, long count, size_t bytes)
{
    for (long i = 0; i < count; i++)
        kept = arena_alloc(arena, bytes);
}

static struct arena one;

/* COUNT blocks of SIZE bytes in chunks of CHUNK bytes from malloc or "mmap", which are released at the end if
 * a fifth argument says so. */
static void blocks(char **arguments)
{
    one.chunk_bytes = (size_t)atol(arguments[2]);
    one.mapped = !strcmp(arguments[3], "mmap");
    hold_blocks(&one, atol(arguments[0]), (size_t)atol(arguments[1]));
    if (arguments[4])
        arena_release(&one);
}

/* 200 rounds: 1 MiB in blocks of 1000 bytes, dropped at once; then one block of 300 KiB stays. */
static void cleared(char **arguments)
{
    (void)arguments;
    one.chunk_bytes = 2 * MIB;
    for (int round = 0; round < 200; round++) {
        pass_blocks(&one, 1000, 1000);
        arena_clear(&one);
    }
    hold_blocks(&one, 1, 300 * 1024);
}

/* One by one: 3 blocks of 200 KiB, one freed, one told again with another size. */
static void single(char **arguments)
{
    (void)arguments;
    one.chunk_bytes = 4 * MIB;
    char *first = arena_alloc(&one, 200 * 1024), *second = arena_alloc(&one, 200 * 1024);
    hold_blocks(&one, 1, 200 * 1024);
    tide_pool_free(first);
    tide_pool_free(first);
    tide_pool_alloc(second, 150 * 1024);
}

/* What no program should say. Nothing is live of it. */
static void hostile(char **arguments)
{
    (void)arguments;
    char somewhere[64], *far = (char *)UINTPTR_MAX;
    tide_pool_free(NULL);
    tide_pool_free(somewhere);
    tide_pool_free(far);
    tide_pool_alloc(NULL, MIB);
    tide_pool_alloc(somewhere, 0);
    tide_pool_alloc(far, MIB);
    tide_pool_alloc(far - 10, SIZE_MAX);
    tide_pool_chunk(NULL, MIB);
    tide_pool_chunk(somewhere, 0);
    tide_pool_chunk(far - 5, 100);
    tide_pool_clear(NULL, SIZE_MAX);
    tide_pool_clear(far, SIZE_MAX);
    tide_pool_clear(somewhere, 0);
    char *block = malloc(8 * MIB);
    check(block != NULL, "malloc");
    tide_pool_chunk(block, 8 * MIB);
    tide_pool_chunk(block, 8 * MIB);
    tide_pool_alloc(block, MIB);
    tide_pool_alloc(block + MIB / 2, MIB); /* overlaps */
    tide_pool_alloc(block + 9 * MIB, MIB); /* outside */
    tide_pool_chunk(block + MIB, 8 * MIB); /* overlaps, and ends elsewhere */
    tide_pool_alloc(block + 2 * MIB, MIB);
    tide_pool_clear(block, SIZE_MAX);
    tide_pool_free(block + 2 * MIB);
    free(block);
    tide_pool_clear(somewhere, 1); /* the chunk that is none: gone with a free that cannot come */
    kept = realloc(malloc(MIB), 2 * MIB);
    tide_pool_chunk(kept, 2 * MIB);
    tide_pool_alloc((char *)kept + 5, MIB);
    kept = realloc(kept, 4 * MIB);
    check(kept != NULL, "realloc");
    free(kept);
}

/* The child frees what it inherited and hands out 1 MiB of the inherited chunk. */
static void forked(char **arguments)
{
    (void)arguments;
    one.chunk_bytes = 8 * MIB;
    char *inherited = arena_alloc(&one, 2 * MIB);
    pid_t child = fork();
    check(child >= 0, "fork");
    if (!child) {
        tide_pool_free(inherited);
        tide_pool_clear(one.chunks[0], MIB);
        hold_blocks(&one, 1, MIB);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && !status, "the child");
    hold_blocks(&one, 1, 3 * MIB);
}

/* Threads, each with an arena, and one that forks meanwhile: nothing is live at the end. */
static void *work(void *argument)
{
    struct arena *arena = argument;
    arena->chunk_bytes = 256 * 1024;
    for (int round = 0; round < 200; round++) {
        pass_blocks(arena, 900, 1000);
        if (round % 3)
            arena_clear(arena);
        else
            arena_release(arena);
    }
    arena_release(arena);
    return NULL;
}

static void threads(char **arguments)
{
    static struct arena arenas[6];
    pthread_t workers[6];
    int rounds = atoi(arguments[0]);
    for (int i = 0; i < 6; i++)
        check(!pthread_create(&workers[i], NULL, work, &arenas[i]), "pthread_create");
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (!child) {
            one.chunk_bytes = MIB;
            hold_blocks(&one, 100, 1000);
            arena_clear(&one);
            _exit(0);
        }
        int status;
        check(waitpid(child, &status, 0) == child && !status, "the child");
    }
    for (int i = 0; i < 6; i++)
        pthread_join(workers[i], NULL);
}

/* STEPS steps of a trainer whose arena is reset after each. "orphaned": a reset keeps the chunks, but the
 * first overflow after it makes a new one all the same and loses the old. "kept": chunks are used again, but
 * one block in eight is never given back. */
VISIBLE void forward(struct arena *arena)
{
    pass_blocks(arena, 6, 150 * 1000);
}

VISIBLE void log_loss(struct arena *arena)
{
    kept = arena_alloc(arena, 150 * 1000);
}

static void training(char **arguments)
{
    static struct arena scratch, lasting;
    long steps = atol(arguments[1]);
    bool orphans = !strcmp(arguments[0], "orphaned");
    scratch.chunk_bytes = lasting.chunk_bytes = MIB;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (long step = 0; step < steps; step++) {
        printf("step %ld\n", step);
        forward(&scratch);
        if (orphans) {
            arena_clear(&scratch);
            scratch.count = 0; /* the next block needs a chunk, and the old one is forgotten */
        } else {
            log_loss(&lasting);
            arena_clear(&scratch);
        }
        usleep(10000);
    }
}

static const struct {
    const char *name;
    void (*run)(char **arguments);
    int needs;
} modes[] = {
    {"blocks", blocks, 4}, {"cleared", cleared, 0}, {"single", single, 0},     {"hostile", hostile, 0},
    {"forked", forked, 0}, {"threads", threads, 1}, {"training", training, 2},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name) && argc - 2 >= modes[i].needs) {
            modes[i].run(argv + 2);
            return 0;
        }
    fprintf(stderr, "pools: no such mode\n");
    return 2;
}
