/* game_private.h - shared by the files of game.h. */
#ifndef TIDE_GAME_PRIVATE_H
#define TIDE_GAME_PRIVATE_H

#include "game/game.h"

/* True if stones contain a line that wins. */
bool tide_stones_have_line(const struct tide_game *game, const uint64_t stones[TIDE_BOARD_WORDS]);

#endif
