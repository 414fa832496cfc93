/*
 * player.h - who moves for the program: a search, an evaluator, and the memory of both in one piece.
 *
 * tide_player_init -> { _limit, when the memory that it may take changes } -> { _set to a position, _step
 * until it has thought, then _best or _mind } -> tide_player_release. The tree is kept from position to
 * position as long as one follows from the other. Nothing is allocated while it thinks. One thread.
 */
#ifndef TIDE_PLAYER_H
#define TIDE_PLAYER_H

#include "game/evaluator.h"
#include "game/random_rollouts.h"

/* What a player's tree and cache take where nobody says otherwise: at most, and only as they grow. */
#define TIDE_PLAYER_BYTES (INT64_C(512) << 20)

struct tide_player {
    struct tide_game game;
    struct tide_evaluator evaluator;
    struct tide_rollouts rollouts; /* the evaluator's context, where there is no net */
    bool caches;
    int64_t batch_ns; /* what the evaluator took for a full batch */
    int64_t allowed;  /* bytes of `memory`, when there is one */
    int64_t bytes;    /* of `memory` now */
    void *memory;     /* workspace, tree, cache; NULL before the first _limit */
    void *workspace;
    struct tide_search *search;
    struct tide_cache *cache; /* NULL: none */
};

/* A player with a net's evaluator, whose values are kept in a cache; its context must outlive the player.
 * Values one batch, so that everything that valuing needs is there. */
int tide_player_init(struct tide_player *player, const struct tide_game *game,
                     const struct tide_evaluator *evaluator, struct tide_err *err);

/* A player without a net: every position is worth what a random game from it comes to, and moves that
 * complete a line, stop one or are near other stones are tried first. */
int tide_player_init_rollouts(struct tide_player *player, const struct tide_game *game, uint64_t seed,
                              struct tide_err *err);
void tide_player_release(struct tide_player *player);

/* Sizes the tree and the cache so that the whole process stays below so many resident bytes (0: takes
 * TIDE_PLAYER_BYTES). Everything thought so far is forgotten. */
int tide_player_limit(struct tide_player *player, int64_t process_bytes, struct tide_err *err);

/* What to think about next: a position of that game that has not ended. Where `game` is not the one before,
 * its board must be of the same size, if the player has a net. */
int tide_player_set(struct tide_player *player, const struct tide_game *game,
                    const struct tide_position *position, struct tide_err *err);

/* How long to think about a position. */
struct tide_turn {
    int64_t simulations; /* 0: no limit */
    int64_t deadline_ns; /* on tide_clock_ns; 0: no limit */
    int64_t done;        /* simulations so far */
};

/* Thinks for about so long, and at least a little. 1: it is enough; 0: there is more to do; -1: the evaluator
 * failed. */
int tide_player_step(struct tide_player *player, struct tide_turn *turn, int64_t slice_ns,
                     struct tide_err *err);

/* The best move so far. After one step there always is one. */
int tide_player_best(const struct tide_player *player);

struct tide_thought {
    int move;
    uint32_t visits;
    float win; /* how often the side to move would win with it, from 0 to 1; a draw is a half */
};

/* The most visited moves, best first: at most `most`. Returns how many. */
int tide_player_mind(const struct tide_player *player, struct tide_thought *ret_thoughts, int most);

#endif
