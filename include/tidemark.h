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
 * Run under `tidemark run`, each call leaves a mark in memory shared with the tracker (at most 50 ns); run
 * alone, each is a load and a branch. Calls never fail, never block, never allocate after the first, may come
 * from any thread, and work in every process of the tree (a forked child leaves its own marks). Names are cut
 * at TIDE_NAME_MAX bytes.
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

/* Items (images, sequences, games) seen so far, in all. */
void tide_items(int64_t seen);

/* A number of bytes that the program counts itself: "torch allocated", "replay buffer". */
void tide_gauge(const char *name, int64_t bytes);

/* 1 when a tracker is listening, else 0. */
int tide_tracked(void);

/* ---- a program's own pools and arenas, under `tidemark run --heap`
 *
 * Seen from outside, memory inside a pool belongs to the code that made the pool grow. A pool that says what
 * it hands out gets its users' call stacks instead, sampled or exact like those of malloc:
 *
 *     chunk = malloc(CHUNK);                 tide_pool_chunk(chunk, CHUNK);
 *     pointer = chunk + used, used += bytes; tide_pool_alloc(pointer, bytes);
 *     used = 0;                              tide_pool_clear(chunk, CHUNK);
 *     free(chunk);
 *
 * No byte is counted twice: a block's bytes are taken off the chunk that it lies in, whose own stack keeps
 * what is not handed out. So an arena that loses its chunks grows at the line that made them, and one whose
 * user keeps blocks grows at that user's line.
 *
 * The functions are in the preloaded library alone, and nothing needs linking for them, -ltidemark neither:
 * the symbols are weak, and a call that finds none is a load and a branch (its arguments are not evaluated).
 * Wrong calls are ignored, and so are blocks and chunks that a forked child inherited. Elsewhere than in C
 * and C++, look the names up: ctypes.CDLL(None).tide_pool_alloc. */

/* A block was handed out. Told again of the same pointer, what was said before is over. */
void tide_pool_alloc(void *pointer, size_t bytes) __attribute__((weak));

/* A block came back. */
void tide_pool_free(void *pointer) __attribute__((weak));

/* All blocks that begin in [start, start + bytes) came back. */
void tide_pool_clear(void *start, size_t bytes) __attribute__((weak));

/* A pool will cut up this memory: the pointer that malloc gave, and its size. To be said before any of it is
 * handed out, and not for memory from mmap, which is known already. free() and munmap() end it, and the
 * blocks inside with it. */
void tide_pool_chunk(void *start, size_t bytes) __attribute__((weak));

/* A program that is not position-independent would compare with the address at link time, which is 0. */
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
