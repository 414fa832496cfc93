/*
 * due.h - an update of parameters that is due, and is done in pieces while matrix products run.
 *
 * An update mostly waits for memory; a product hardly ever does. So the update of a step is done in the next
 * pass: a product in tiles takes a piece, prefetches its memory while it multiplies, and updates it when the
 * memory has arrived. Pieces are taken in the order in which the pass needs them; what the pass needs before
 * its turn is updated at once. Each number depends only on its own weight, moments and gradient, so neither
 * the thread nor the time changes a bit, as long as it is done before anything reads it.
 *
 * tide_due_new -> tide_due_add() for each parameter, in the order of need -> tide_due_begin() when the
 * gradients are complete -> _rows(), _until(), _all() before something is read; _free.
 */
#ifndef TIDE_DUE_H
#define TIDE_DUE_H

#include "base/err.h"
#include "rt/cpu/pack.h"
#include "rt/cpu/update.h"

#include <stddef.h>

struct tide_due;

/* apart: the distance in numbers from a weight to its first moment, from there to the second, and on to the
 * gradient. Caller frees. */
int tide_due_new(int capacity, int64_t apart, struct tide_due **ret_due, struct tide_err *err);
void tide_due_free(struct tide_due *due);

/* Adds a parameter of rows x columns. by_rows: some of its rows may be needed before the others. Returns the
 * number that identifies it; -1 with err set. */
int tide_due_add(struct tide_due *due, float *weight, int64_t rows, int64_t columns, bool by_rows,
                 bool decays, struct tide_err *err);

/* Makes the update of everything due. No earlier one may be left. decay: for those that decay. */
void tide_due_begin(struct tide_due *due, const struct tide_optimizer_step *how, float decay);

/* When these return, the update is done for: these rows of a parameter; a parameter and those before it; all.
 * Do not call them from a thread of tide_parallel(). */
void tide_due_rows(struct tide_due *due, int number, const int32_t *rows, int64_t count);
void tide_due_until(struct tide_due *due, int number);
void tide_due_all(struct tide_due *due);

/* ---- for threads that are busy with other work; due may be NULL: nothing is due */

struct tide_piece {
    struct tide_due *of;
    int number;
    int64_t first, last; /* rows, or numbers if it is not by rows */
};

/* Takes at most that many numbers, but at least one row, from the share of a thread, by its number in
 * tide_parallel(). Returns false if nothing is due. The caller must do the piece that it takes. */
bool tide_due_take(struct tide_due *due, int thread, int64_t numbers, struct tide_piece *ret_piece);

/* Returns the memory that a piece reads. */
struct tide_cache_lines tide_piece_cache_lines(const struct tide_piece *piece);
void tide_piece_do(const struct tide_piece *piece);

#endif
