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

#ifdef __cplusplus
}
#endif

#endif
