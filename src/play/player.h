/*
 * player.h - moves for the program: a search, an evaluator, and the memory of both in one mapping.
 *
 * tide_player_init -> { _limit, when its memory limit changes } -> { _set to a position, _step until it has
 * thought, then _best or _mind } -> tide_player_release. The tree is kept from position to position as long
 * as one follows from the other. Nothing is allocated while it thinks. Not thread-safe.
 */
#ifndef TIDE_PLAYER_H
#define TIDE_PLAYER_H

#include "game/evaluator.h"
#include "game/random_rollouts.h"

/* The default limit of a player's tree and cache. Pages are used only as they grow. */
#define TIDE_PLAYER_BYTES (INT64_C(512) << 20)

struct tide_player {
    struct tide_game game;
    struct tide_evaluator evaluator;
    struct tide_rollouts rollouts; /* the evaluator's context if there is no net */
    bool caches;
    int64_t batch_ns; /* time of the evaluator for a full batch */
    int64_t allowed;  /* limit of `memory` */
    int64_t bytes;    /* size of `memory` now */
    void *memory;     /* workspace, tree, cache; NULL before the first _limit */
    void *workspace;
    struct tide_search *search;
    struct tide_cache *cache; /* NULL: none */
};

/* Makes a player with a net's evaluator and a cache of its values; the evaluator's context must outlive the
 * player. Evaluates one batch, so that everything evaluation needs is in memory. */
int tide_player_init(struct tide_player *player, const struct tide_game *game,
                     const struct tide_evaluator *evaluator, struct tide_err *err);

/* Makes a player without a net: the value of a position is the result of a random game from it, and moves
 * that complete a line, stop one or are near other stones are tried first. */
int tide_player_init_rollouts(struct tide_player *player, const struct tide_game *game, uint64_t seed,
                              struct tide_err *err);
void tide_player_release(struct tide_player *player);

/* Sizes the tree and the cache so that the RSS of the process stays below that many bytes (0: uses
 * TIDE_PLAYER_BYTES). Forgets everything thought so far. */
int tide_player_limit(struct tide_player *player, int64_t process_bytes, struct tide_err *err);

/* Sets the position to think about: one of that game that has not ended. If `game` differs from the one
 * before and the player has a net, its board must have the same size. */
int tide_player_set(struct tide_player *player, const struct tide_game *game,
                    const struct tide_position *position, struct tide_err *err);

/* How long to think about a position. */
struct tide_turn {
    int64_t simulations; /* 0: no limit */
    int64_t deadline_ns; /* on tide_clock_ns; 0: no limit */
    int64_t done;        /* simulations so far */
};

/* Thinks for about slice_ns, and at least a little. 1: it is enough; 0: there is more to do; -1: the
 * evaluator failed. */
int tide_player_step(struct tide_player *player, struct tide_turn *turn, int64_t slice_ns,
                     struct tide_err *err);

/* Returns the best move so far. After one step there always is one. */
int tide_player_best(const struct tide_player *player);

struct tide_thought {
    int move;
    uint32_t visits;
    float win; /* the chance that the side to move wins with it, from 0 to 1; a draw is a half */
};

/* Lists the most visited moves, best first, at most `most`. Returns how many. */
int tide_player_mind(const struct tide_player *player, struct tide_thought *ret_thoughts, int most);

#endif
