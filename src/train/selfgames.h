/*
 * selfgames.h - many games at once, whose searches share one net.
 *
 * In a round, every game goes on, on all threads, until it needs the value of a position that is not in the
 * cache. These positions form one batch; then every game gets its answer. A game whose search is done makes
 * its move and goes on in the same round, so that batches stay full. There are no locks, and the result is
 * the same, bit for bit, with any number of threads.
 *
 * The caller owns the memory, whose size is known beforehand: tide_selfgames_room() -> _place -> _play and
 * _match as often as wanted. Nothing is allocated.
 *
 * Trees and the cache are valid as long as the weights: _play and _match start with empty ones. Between
 * calls, a game is its position, its number and the records of its positions so far, which checkpoints hold
 * (_write, _read).
 */
#ifndef TIDE_SELFGAMES_H
#define TIDE_SELFGAMES_H

#include "game/evaluator.h"
#include "game/search.h"
#include "train/replay_ring.h"

struct tide_selfgames_rule {
    struct tide_search_rule search;
    int64_t games;         /* at once */
    int64_t simulations;   /* visits of the root before a move, with those kept from before */
    int64_t children;      /* of a tree; enough for the simulations, so that it never fills */
    double openings;       /* share of self-play games that begin with a random opening (opening.h) */
    int64_t sampled_plies; /* up to this ply moves are drawn by their visits; then the most visited is made */
    size_t cache_bytes;
    uint64_t seed;
};

/* Bytes of its parts. _place gets each separately, aligned to 64 and zero. */
struct tide_selfgames_room {
    size_t trees, records, cache, games;
};

struct tide_selfgames_room tide_selfgames_room(const struct tide_game *game,
                                               const struct tide_selfgames_rule *rule);

struct tide_selfgames;

/* game must outlive it. */
struct tide_selfgames *tide_selfgames_place(const struct tide_game *game,
                                            const struct tide_selfgames_rule *rule,
                                            const struct tide_selfgames_room *room, void *trees,
                                            void *records, void *cache, void *games);

/* Counts since _place, or of the last call. */
struct tide_selfgames_counts {
    int64_t games, moves;      /* ended; made */
    int64_t first_wins, draws; /* of those games */
    int64_t simulations;       /* descents */
    int64_t evaluations;       /* positions that the net evaluated */
    int64_t asked, found;      /* lookups and hits of the cache */
    int64_t full;              /* times that a tree had no room for children */
    uint64_t trees_high_water; /* bytes */
};

/* Plays until `until` positions of finished games were put into the replay since the beginning, or until
 * hurries() is true (called in every round; NULL: never); every game then stands after a move. -1: the
 * evaluator failed. counts: of this call. */
int tide_selfgames_play(struct tide_selfgames *games, const struct tide_evaluator *evaluator,
                        struct tide_replay *replay, int64_t until, bool (*hurries)(void),
                        struct tide_selfgames_counts *ret_counts);

/* Of the first of two evaluators. */
struct tide_selfgames_score {
    int64_t wins, draws, losses;
};

/* Plays pairs of games between two evaluators, each pair from one opening (opening.h) with colours exchanged,
 * then with the best moves. Leaves the games of self-play unchanged. 1: hurries() was true; there is no
 * score. */
int tide_selfgames_match(struct tide_selfgames *games, const struct tide_evaluator *const evaluators[2],
                         int64_t pairs, uint64_t seed, bool (*hurries)(void),
                         struct tide_selfgames_score *ret_score);

/* Writes the names of the moves so far of the first current game. */
void tide_selfgames_show(const struct tide_selfgames *games, char *out, size_t size);

/* Writes the current games to a file and reads them back. The file is not trusted. */
void tide_selfgames_write(const struct tide_selfgames *games, struct tide_durable *file);
int tide_selfgames_read(struct tide_selfgames *games, FILE *file, struct tide_err *err);

#endif
