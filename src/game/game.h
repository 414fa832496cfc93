/*
 * game.h - board games for two: tic-tac-toe, Connect Four and Gomoku, as one table.
 *
 * A game is a board, the number of stones in a row that win, and whether stones fall. A position is two bit
 * sets, one for each side, and the result of the last move: nothing else is kept, and nothing is allocated.
 * All functions depend on their arguments alone; any number of threads may call them.
 *
 * Cells are numbered row * columns + column, from the top left. A move is a cell or, if stones fall, a
 * column. The first player is 0, the other 1; plies & 1 is who moves next.
 */
#ifndef TIDE_GAME_H
#define TIDE_GAME_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIDE_BOARD_SIDE = 20,
    TIDE_BOARD_CELLS = 400,
    TIDE_BOARD_WORDS = 7,
    TIDE_SYMMETRIES = 8,
    TIDE_PLANES = 5,
    TIDE_MOVE_NAME = 8, /* bytes of the longest move name with its NUL */
};

struct tide_game {
    const char *name; /* "tictactoe", "connect4", "gomoku": static */
    int columns, rows;
    int line;       /* this many in a row win */
    bool exact;     /* and more do not */
    bool drops;     /* a move is a column, and its stone falls to the lowest empty cell */
    int cells;      /* columns * rows */
    int moves;      /* moves are numbered 0 .. moves - 1 */
    int symmetries; /* 8 on a square board; 2 if stones fall: identity and mirror */
};

/* The game of that name on a board of that many columns (0: the usual size). exact: only in gomoku. */
int tide_game_of(const char *name, int board, bool exact, struct tide_game *ret_game, struct tide_err *err);

/* Returns where a symmetry (0 .. symmetries - 1; 0 is the identity) takes a cell or a move. */
int tide_game_symmetric(const struct tide_game *game, int symmetry, int cell_or_move);

enum tide_outcome { TIDE_PLAYING, TIDE_WON /* by whoever moved last */, TIDE_DRAWN };

struct tide_position {
    uint64_t stones[2][TIDE_BOARD_WORDS]; /* of the first player, of the other: bit c % 64 of word c / 64 */
    int16_t plies;                        /* stones on the board */
    int16_t last;                         /* cell of the last stone, -1: none */
    uint8_t outcome;                      /* enum tide_outcome */
    uint8_t unused[3];                    /* zeros, so that equal positions are equal bytes */
};

void tide_position_begin(const struct tide_game *game, struct tide_position *ret_position);

/* True if a move, which may be any number, is possible. None is once the game has ended. */
bool tide_position_may(const struct tide_game *game, const struct tide_position *position, int move);

/* Lists all possible moves in ascending order, at most game->moves. Returns how many. */
int tide_position_moves(const struct tide_game *game, const struct tide_position *position,
                        uint16_t *ret_moves);

/* Returns how many moves are possible. */
int tide_position_choices(const struct tide_game *game, const struct tide_position *position);

/* Returns the cell where the stone of a possible move ends up. */
int tide_position_cell(const struct tide_game *game, const struct tide_position *position, int move);

/* Plays a move, which must be possible, and sets the outcome. */
void tide_position_play(const struct tide_game *game, struct tide_position *position, int move);

/* For caches: equal for equal stones in whatever order they came, and different for others as far as 64 bits
 * allow. Who moves next follows from the stones. */
uint64_t tide_position_key(const struct tide_game *game, const struct tide_position *position);

/* Finds the empty cells where one more stone of a side (0 or 1) would complete a line; if stones fall, only
 * those that the next stone can reach. */
void tide_position_completing(const struct tide_game *game, const struct tide_position *position, int side,
                              uint64_t ret_cells[TIDE_BOARD_WORDS]);

/* Writes what a net sees of a position, turned by a symmetry: cells x TIDE_PLANES numbers, the planes of a
 * cell side by side, all 0 or 1: stones of the side to move, stones of the other, the last stone, 1 if the
 * first player is to move, cells where a stone of either side completes a line at once. */
void tide_position_planes(const struct tide_game *game, const struct tide_position *position, int symmetry,
                          float *ret_planes);

/* A position in few bytes, for replay: the last stone's cell in two bytes, then two bits per cell (0 empty, 1
 * the first player's, 2 the other's). Unpacking trusts nothing: it refuses bytes that no game leads to
 * (stones of one side only, in the air, or after the end of the game) with a sentence. */
size_t tide_position_packed_bytes(const struct tide_game *game);
void tide_position_pack(const struct tide_game *game, const struct tide_position *position,
                        uint8_t *ret_bytes);
int tide_position_unpack(const struct tide_game *game, const uint8_t *bytes,
                         struct tide_position *ret_position, struct tide_err *err);

/* The name of a move: the column's letter from 'a' and the row's number from the bottom, "h8"; if stones
 * fall, the letter alone. Returns ret_name. */
char *tide_move_name(const struct tide_game *game, int move, char ret_name[TIDE_MOVE_NAME]);

static inline bool tide_cell_in(const uint64_t cells[TIDE_BOARD_WORDS], int cell)
{
    return cells[cell >> 6] >> (cell & 63) & 1;
}

static inline void tide_cell_add(uint64_t cells[TIDE_BOARD_WORDS], int cell)
{
    cells[cell >> 6] |= UINT64_C(1) << (cell & 63);
}

#endif
