/*
 * selfplay_player.h - the net of a self-play run, to play with.
 *
 * tide_selfplay_open -> game, evaluator -> _free. Its memory is one arena.
 */
#ifndef TIDE_SELFPLAY_PLAYER_H
#define TIDE_SELFPLAY_PLAYER_H

#include "base/err.h"
#include "train/netplayer.h"

enum { TIDE_SELFPLAY_AT_ONCE = 16 }; /* the most positions its evaluator takes */

/* Others read it and change nothing. */
struct tide_selfplay_player {
    struct tide_game game;
    struct tide_graph *graph;
    struct tide_machine *machine;
    struct tide_netplayer net;
    struct tide_evaluator evaluator;
    int64_t steps; /* of training */
};

/* run: the directory of a run, or one of its checkpoints. Refuses a run of another task. Caller frees. */
int tide_selfplay_open(const char *run, struct tide_selfplay_player **ret_player, struct tide_err *err);
void tide_selfplay_free(struct tide_selfplay_player *player);

#endif
