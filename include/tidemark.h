/*
 * tidemark.h - what a program under observation says about itself.
 *
 *     #include <tidemark.h>          // link with -ltidemark
 *
 *     for (long step = 0; step < steps; step++) {
 *         tide_step(step);
 *         train(batch);
 *         if (step % 1000 == 0) {
 *             tide_phase_begin("validation");
 *             evaluate();
 *             tide_phase_end("validation");
 *         }
 *     }
 *
 * Under `tidemark run`, each call leaves a mark in memory shared with the tracker (at most 50 ns). Without a
 * tracker, each call is a load and a branch. Calls never fail, never block, and never allocate after the
 * first. They may come from any thread and from every process of the tree (a forked child leaves its own
 * marks). Names are cut at TIDE_NAME_MAX bytes.
 */
#ifndef TIDEMARK_H
#define TIDEMARK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_NAME_MAX 95

/* A step of training begins; n counts from wherever the program counts. */
void tide_step(int64_t n);

/* An epoch begins. */
void tide_epoch(int64_t n);

/* A named stretch of time: "validation", "self-play", "checkpoint". Phases may nest and may overlap. */
void tide_phase_begin(const char *name);
void tide_phase_end(const char *name);

/* The number of items (images, sequences, games) seen so far. */
void tide_items(int64_t seen);

/* A number of bytes that the program counts itself: "torch allocated", "replay buffer". */
void tide_gauge(const char *name, int64_t bytes);

/* 1 when a tracker is listening, else 0. */
int tide_tracked(void);

/* ---- a program's own pools and arenas, under `tidemark run --heap`
 *
 * By default, memory in a pool is counted at the code that made the pool grow. If a pool reports what it
 * hands out, its blocks are counted at the call stacks of its users, sampled or exact like malloc's:
 *
 *     chunk = malloc(CHUNK);                 tide_pool_chunk(chunk, CHUNK);
 *     pointer = chunk + used, used += bytes; tide_pool_alloc(pointer, bytes);
 *     used = 0;                              tide_pool_clear(chunk, CHUNK);
 *     free(chunk);
 *
 * No byte is counted twice: a block's bytes are subtracted from the chunk that it lies in, so the chunk's own
 * stack keeps what is not handed out. If an arena loses its chunks, the line that made them grows. If a user
 * keeps its blocks, that user's line grows.
 *
 * The functions exist only in the preloaded library, and nothing needs linking for them, not even -ltidemark.
 * The symbols are weak: where they are missing, a call is a load and a branch, and its arguments are not
 * evaluated. Wrong calls are ignored, and so are blocks and chunks that a forked child inherited. In
 * languages other than C and C++, look the names up: ctypes.CDLL(None).tide_pool_alloc. */

/* A block was handed out. A second call for the same pointer replaces the first. */
void tide_pool_alloc(void *pointer, size_t bytes) __attribute__((weak));

/* A block came back. */
void tide_pool_free(void *pointer) __attribute__((weak));

/* All blocks that begin in [start, start + bytes) came back. */
void tide_pool_clear(void *start, size_t bytes) __attribute__((weak));

/* A pool will cut up this memory. Pass the pointer that malloc returned, and its size, before any of it is
 * handed out. Memory from mmap is known already and needs no call. free() and munmap() end the chunk and all
 * blocks in it. */
void tide_pool_chunk(void *start, size_t bytes) __attribute__((weak));

/* Without position-independent code, the weak symbol's address would be the one at link time, which is 0. */
#if defined(__x86_64__) && !defined(__PIC__)
#define TIDE_POOL_FUNCTION(name)                                                                             \
    (__extension__({                                                                                         \
        __typeof__(&name) tide_found_;                                                                       \
        __asm__(".weak " #name "\n\tmovq " #name "@GOTPCREL(%%rip), %0" : "=r"(tide_found_));                \
        tide_found_;                                                                                         \
    }))
#else
#define TIDE_POOL_FUNCTION(name) (&name)
#endif
#define TIDE_POOL_CALL(name, arguments)                                                                      \
    (TIDE_POOL_FUNCTION(name) ? TIDE_POOL_FUNCTION(name) arguments : (void)0)
#define tide_pool_alloc(pointer, bytes) TIDE_POOL_CALL(tide_pool_alloc, (pointer, bytes))
#define tide_pool_free(pointer)         TIDE_POOL_CALL(tide_pool_free, (pointer))
#define tide_pool_clear(start, bytes)   TIDE_POOL_CALL(tide_pool_clear, (start, bytes))
#define tide_pool_chunk(start, bytes)   TIDE_POOL_CALL(tide_pool_chunk, (start, bytes))

#ifdef __cplusplus
}
#endif

#endif
