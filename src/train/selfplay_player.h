/*
 * selfplay_player.h - the net of a self-play run, to play with.
 *
 * tide_selfplay_open -> _game, _evaluator -> _free. Its memory is one arena.
 */
#ifndef TIDE_SELFPLAY_PLAYER_H
#define TIDE_SELFPLAY_PLAYER_H

#include "base/err.h"
#include "game/evaluator.h"

enum { TIDE_SELFPLAY_AT_ONCE = 16 }; /* the most positions its evaluator takes */

struct tide_selfplay_player;

/* run: the directory of a run, or one of its checkpoints. Refuses a run of another task. Caller frees. */
int tide_selfplay_open(const char *run, struct tide_selfplay_player **ret_player, struct tide_err *err);
void tide_selfplay_free(struct tide_selfplay_player *player);

/* Borrowed, valid as long as the player. */
const struct tide_game *tide_selfplay_game(const struct tide_selfplay_player *player);
const struct tide_evaluator *tide_selfplay_evaluator(const struct tide_selfplay_player *player);

/* Returns how many steps it was trained. */
int64_t tide_selfplay_steps(const struct tide_selfplay_player *player);

#endif
