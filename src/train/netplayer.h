/*
 * netplayer.h - a board net as an evaluator (game/evaluator.h).
 *
 * A machine has the net's playing programs in a few batch sizes; positions go through the smallest that holds
 * them all.
 */
#ifndef TIDE_NETPLAYER_H
#define TIDE_NETPLAYER_H

#include "game/evaluator.h"
#include "train/boardnet.h"

enum { TIDE_NETPLAYER_SIZES = 3 };

struct tide_netplayer {
    const struct tide_game *game;
    struct tide_machine *machine;
    int count;
    int64_t batches[TIDE_NETPLAYER_SIZES]; /* ascending */
    struct tide_boardnet_player programs[TIDE_NETPLAYER_SIZES];
};

/* Appends programs of those sizes, ascending. prefix: see tide_boardnet_build_player. */
int tide_netplayer_build(struct tide_graph *graph, const struct tide_boardnet_config *config,
                         const char *prefix, const int64_t *batches, int count,
                         struct tide_netplayer *ret_player, struct tide_err *err);

/* Runs each program once, so that a rarely used one does not touch new pages later. */
void tide_netplayer_warm(struct tide_netplayer *player);

/* Call when game and machine are set. Borrows the player. */
struct tide_evaluator tide_netplayer_evaluator(struct tide_netplayer *player);

#endif
