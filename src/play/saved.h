/*
 * saved.h - games in files: PSQ, as the manager Piskvork writes them, and SGF.
 *
 * A saved game is its board, its players' names and its stones in order; tide_saved_replay() plays them by
 * the rules. Readers trust nothing: whatever is not such a file gets a sentence. Of an SGF with variations or
 * several games, the main line of the first is read.
 *
 * PSQ has no word for the rule, SGF has (RU). Connect Four is saved in the same way, each stone where it
 * lies.
 */
#ifndef TIDE_SAVED_H
#define TIDE_SAVED_H

#include "game/game.h"

enum { TIDE_SAVED_NAME = 64, TIDE_SAVED_MOST_BYTES = 1 << 20 };

struct tide_saved {
    int columns, rows;
    bool exact;                     /* exactly five win */
    char names[2][TIDE_SAVED_NAME]; /* of the first player and the other, escaped; "": not known */
    int count;
    int16_t cells[TIDE_BOARD_CELLS]; /* where stones were put: row * columns + column */
    int32_t ms[TIDE_BOARD_CELLS];    /* that each took; SGF does not say */
};

enum tide_saved_form { TIDE_SAVED_PSQ, TIDE_SAVED_SGF };

/* By the end of the name; -1 with a sentence when it is neither. */
int tide_saved_form_of(const char *path, enum tide_saved_form *ret_form, struct tide_err *err);

/* What `text` begins with decides the form. */
int tide_saved_parse(const char *text, size_t len, struct tide_saved *ret_saved, struct tide_err *err);
int tide_saved_read(const char *path, struct tide_saved *ret_saved, struct tide_err *err);

/* Plays the stones. Fails when they are of another board, or cannot be. ret_moves: saved->count of them. */
int tide_saved_replay(const struct tide_saved *saved, const struct tide_game *game,
                      struct tide_position *ret_position, int16_t *ret_moves, struct tide_err *err);

/* The file is there whole or as it was (base/outfile.h). `game` is the one it is of; `winner` 0 or 1, -1:
 * none. */
int tide_saved_write(const struct tide_saved *saved, const struct tide_game *game, int winner,
                     const char *path, struct tide_err *err);

#endif
