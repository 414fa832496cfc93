/*
 * saved.h - games in files: PSQ, as the manager Piskvork writes it, and SGF.
 *
 * A saved game is its board, the players' names and the stones in order; tide_saved_replay() plays them by
 * the rules. Readers trust nothing: anything else gets a sentence. If an SGF has variations or several games,
 * the main line of the first is read.
 *
 * PSQ cannot express the rule, SGF can (RU). Connect Four is saved in the same way, each stone where it ends
 * up.
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
    int16_t cells[TIDE_BOARD_CELLS]; /* where stones were placed: row * columns + column */
    int32_t ms[TIDE_BOARD_CELLS];    /* time of each; not in SGF */
};

enum tide_saved_form { TIDE_SAVED_PSQ, TIDE_SAVED_SGF };

/* By the end of the name; -1 with a sentence if it is neither. */
int tide_saved_form_of(const char *path, enum tide_saved_form *ret_form, struct tide_err *err);

/* The beginning of `text` decides the form. */
int tide_saved_parse(const char *text, size_t len, struct tide_saved *ret_saved, struct tide_err *err);
int tide_saved_read(const char *path, struct tide_saved *ret_saved, struct tide_err *err);

/* Plays the stones. Fails if they are of another board or break the rules. ret_moves: saved->count moves. */
int tide_saved_replay(const struct tide_saved *saved, const struct tide_game *game,
                      struct tide_position *ret_position, int16_t *ret_moves, struct tide_err *err);

/* Replaces the file atomically (base/outfile.h). game: the one that was played; winner: 0 or 1, -1: none. */
int tide_saved_write(const struct tide_saved *saved, const struct tide_game *game, int winner,
                     const char *path, struct tide_err *err);

#endif
