/*
 * due.h - an update of parameters that is due, and done in pieces while matrix products run.
 *
 * An update waits for memory most of its time, a product hardly ever. So what a step ends with is done in the
 * next pass: a product in tiles takes a piece, asks for its memory while it multiplies, and updates it when
 * that is there. Pieces are taken in the order in which the pass needs them; what it needs sooner than their
 * turn came is updated at once. Each number is computed from its own four alone, so that neither who does it
 * nor when changes a bit, as long as it is before anybody looks.
 *
 * tide_due_new -> tide_due_add() for each parameter, in the order of need -> tide_due_begin()
 * when the gradients are whole -> _rows(), _until(), _all() before something is read; _free.
 */
#ifndef TIDE_DUE_H
#define TIDE_DUE_H

#include "base/err.h"
#include "rt/cpu/pack.h"
#include "rt/cpu/update.h"

#include <stddef.h>

struct tide_due;

/* apart: numbers from each weight to its first moment, from there to the second, and on to the gradient.
 * Caller frees. */
int tide_due_new(int capacity, int64_t apart, struct tide_due **ret_due, struct tide_err *err);
void tide_due_free(struct tide_due *due);

/* A parameter of rows x columns. by_rows: some of its rows may be needed before the others. Returns its
 * number, by which it is asked for; -1 with err set. */
int tide_due_add(struct tide_due *due, float *weight, int64_t rows, int64_t columns, bool by_rows,
                 bool decays, struct tide_err *err);

/* Everything is due from now on. Nothing may be before. decay: of those that decay. */
void tide_due_begin(struct tide_due *due, const struct tide_optimizer_step *how, float decay);

/* Done when they return: these rows of a parameter; a parameter and those before it; all. Not from a thread
 * of tide_parallel(). */
void tide_due_rows(struct tide_due *due, int number, const int32_t *rows, int64_t count);
void tide_due_until(struct tide_due *due, int number);
void tide_due_all(struct tide_due *due);

/* ---- from threads that have something else to do; NULL: there is nothing */

struct tide_piece {
    struct tide_due *of;
    int number;
    int64_t first, last; /* rows, or numbers where it has none */
};

/* Of the share of a thread, by its number in tide_parallel(): so many numbers, or fewer; of rows one at
 * least. false: nothing is due. What is taken must be done. */
bool tide_due_take(struct tide_due *due, int thread, int64_t numbers, struct tide_piece *ret_piece);

/* The memory that it takes. */
struct tide_cache_lines tide_piece_cache_lines(const struct tide_piece *piece);
void tide_piece_do(const struct tide_piece *piece);

#endif
