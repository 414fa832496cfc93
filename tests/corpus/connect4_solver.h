/*
 * connect4_solver.h - Connect Four solved: alpha-beta over bits with a table of positions. Truth for what a
 * program has learned. It knows nothing of src/game but its positions.
 */
#ifndef CONNECT4_SOLVER_H
#define CONNECT4_SOLVER_H

#include "game/game.h"

struct connect4_solver;

/* A table of 2^bits positions, 8 bytes each. Caller frees with connect4_solver_free. NULL: no memory. */
struct connect4_solver *connect4_solver_new(int bits);
void connect4_solver_free(struct connect4_solver *solver);

/* What a position that is not ended is worth to the side to move: 0 a draw; above 0 it wins, and the sooner
 * the more (22 less the stones that the winner will have used, its last among them); below 0 the same of the
 * other side. */
int connect4_solver_score(struct connect4_solver *solver, const struct tide_position *position);

/* 1, 0 or -1: the same without when, in much less time. */
int connect4_solver_result(struct connect4_solver *solver, const struct tide_position *position);

/* Columns that keep the result, as bits. */
unsigned connect4_solver_best(struct connect4_solver *solver, const struct tide_position *position);

/* Positions that it went through since it was made. */
uint64_t connect4_solver_positions(const struct connect4_solver *solver);

#endif
