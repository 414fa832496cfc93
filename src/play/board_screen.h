/*
 * board_screen.h - a game against the player on the terminal.
 *
 * One call, tide_board_screen_run(), until the user leaves. The program thinks in short slices and checks the
 * keyboard in between. With `save` the game is in its file after every move; later games go to new files
 * ("a.psq", then "a-2.psq"). The caller decides whether the first file may be overwritten.
 */
#ifndef TIDE_BOARD_SCREEN_H
#define TIDE_BOARD_SCREEN_H

#include "play/player.h"
#include "play/saved.h"

struct tide_board_screen_config {
    struct tide_player *player;
    struct tide_game game;
    const char *program;            /* the player's name; escaped */
    int side;                       /* the user's: 0 moves first */
    int64_t simulations;            /* per move of the program; 0: by time */
    int64_t time_ns;                /* per move; 0: by simulations */
    const char *save;               /* NULL: not saved */
    const struct tide_saved *saved; /* the game to continue; NULL: a new one */
};

/* Checks that there is a terminal to draw on; -1 with a sentence and a hint if not. */
int tide_board_screen_check(struct tide_err *err);

/* Fails if the player does, or if the last game could not be saved. */
int tide_board_screen_run(const struct tide_board_screen_config *config, struct tide_err *err);

#endif
