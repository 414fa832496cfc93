/*
 * game.h - board games for two: tic-tac-toe, Connect Four and Gomoku, as one table.
 *
 * A game is a board, a number of stones in a row that win, and whether stones fall. A position is two sets of
 * bits, one for each side, and what the last move did to it: nobody keeps more than that, and nothing is
 * allocated. All functions depend on their arguments alone; any number of threads may call them.
 *
 * Cells are numbered row * columns + column, from the top left. A move is a cell, or where stones fall, a
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
    TIDE_MOVE_NAME = 8, /* bytes that hold any move's name and its NUL */
};

struct tide_game {
    const char *name; /* "tictactoe", "connect4", "gomoku": lives as long as the program */
    int columns, rows;
    int line;       /* so many in a row win */
    bool exact;     /* and more do not */
    bool drops;     /* a move is a column, and its stone falls to the lowest empty cell */
    int cells;      /* columns * rows */
    int moves;      /* numbers that a move can be: 0 .. moves - 1 */
    int symmetries; /* 8 on a square board; 2 where stones fall: as it is, and left for right */
};

/* The game of that name on a board of so many columns (0: the usual one). exact: only gomoku has that rule.
 */
int tide_game_of(const char *name, int board, bool exact, struct tide_game *ret_game, struct tide_err *err);

/* Where a symmetry (0 .. symmetries - 1; 0 changes nothing) takes a cell or a move. */
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

/* Whether a move, which may be any number, is on the board and possible. Nothing is once a game has ended. */
bool tide_position_may(const struct tide_game *game, const struct tide_position *position, int move);

/* All possible moves in rising order, at most game->moves of them. Returns how many. */
int tide_position_moves(const struct tide_game *game, const struct tide_position *position,
                        uint16_t *ret_moves);

/* How many moves are possible. */
int tide_position_choices(const struct tide_game *game, const struct tide_position *position);

/* The cell that the stone of a possible move comes to lie on. */
int tide_position_cell(const struct tide_game *game, const struct tide_position *position, int move);

/* Plays a move, which must be possible, and sets the outcome. */
void tide_position_play(const struct tide_game *game, struct tide_position *position, int move);

/* For caches: equal for equal stones, whatever order they came in; for others different, as far as 64 bits
 * go. Who moves next follows from the stones. */
uint64_t tide_position_key(const struct tide_game *game, const struct tide_position *position);

/* The empty cells on which one more stone of a side (0 or 1) would complete a line; where stones fall, of
 * those only the cells that the next stone can reach. */
void tide_position_completing(const struct tide_game *game, const struct tide_position *position, int side,
                              uint64_t ret_cells[TIDE_BOARD_WORDS]);

/* What a net sees of a position, turned by a symmetry: cells x TIDE_PLANES numbers, the planes of a cell side
 * by side, all 0 or 1: stones of the side to move, stones of the other, the last stone, whether the first
 * player is to move, cells where a stone of either side completes a line at once. */
void tide_position_planes(const struct tide_game *game, const struct tide_position *position, int symmetry,
                          float *ret_planes);

/* A position in few bytes, for replay: the last stone's cell in two bytes, then two bits a cell (0 empty, 1
 * the first player's, 2 the other's). Unpacking trusts nothing: bytes that no game leads to are refused with
 * a sentence (stones of one side only, in the air, or after the end of the game). */
size_t tide_position_packed_bytes(const struct tide_game *game);
void tide_position_pack(const struct tide_game *game, const struct tide_position *position,
                        uint8_t *ret_bytes);
int tide_position_unpack(const struct tide_game *game, const uint8_t *bytes,
                         struct tide_position *ret_position, struct tide_err *err);

/* The name of a move: the column's letter from 'a' and the row's number from the bottom, "h8"; where stones
 * fall, the letter alone. Returns ret_name. */
char *tide_move_name(const struct tide_game *game, int move, char ret_name[TIDE_MOVE_NAME]);

/* The move of that name (letters large or small), or -1 if the board has none. */
int tide_move_of(const struct tide_game *game, const char *name);

static inline bool tide_cell_in(const uint64_t cells[TIDE_BOARD_WORDS], int cell)
{
    return cells[cell >> 6] >> (cell & 63) & 1;
}

static inline void tide_cell_add(uint64_t cells[TIDE_BOARD_WORDS], int cell)
{
    cells[cell >> 6] |= UINT64_C(1) << (cell & 63);
}

#endif
