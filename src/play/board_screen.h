/*
 * board_screen.h - a game against the player on the terminal.
 *
 * One call, tide_board_screen_run(), until the user leaves. It thinks in slices between which keys are looked
 * at, so that nobody waits for it. With `save` the game is in its file after every move; a game after the
 * first goes to a new file ("a.psq", then "a-2.psq"). Whether the first may take its name the caller knows.
 */
#ifndef TIDE_BOARD_SCREEN_H
#define TIDE_BOARD_SCREEN_H

#include "play/player.h"
#include "play/saved.h"

struct tide_board_screen_config {
    struct tide_player *player;
    struct tide_game game;
    const char *program;            /* what the player is called; escaped */
    int side;                       /* the user's: 0 moves first */
    int64_t simulations;            /* for a move of the program; 0: by time */
    int64_t time_ns;                /* for a move; 0: by simulations */
    const char *save;               /* NULL: nowhere */
    const struct tide_saved *saved; /* the game to go on with; NULL: a new one */
};

/* Whether there is a terminal to draw on; -1 with a sentence and a hint when there is none. */
int tide_board_screen_check(struct tide_err *err);

/* Fails when the player does, or when the last game could not be saved. */
int tide_board_screen_run(const struct tide_board_screen_config *config, struct tide_err *err);

#endif
