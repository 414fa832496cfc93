/*
 * selfgames.h - many games at once, whose searches ask one net together.
 *
 * In a round every game goes on, on all threads, until it needs a position valued that the cache does not
 * have; these positions are one batch; then every game gets its answer. A game whose search is done makes its
 * move and goes on with the next in the same round, so that batches stay full. Nobody waits for a lock, and
 * what comes out is the same, bit for bit, with any number of threads.
 *
 * Memory is the caller's and of a size that is known beforehand: tide_selfgames_room() -> _place -> _play and
 * _match as often as wanted. Nothing is allocated.
 *
 * Trees and the cache last as long as the weights do: both are empty again at the beginning of _play and
 * _match. Between calls a game is its position, its number and the records of its positions so far, which a
 * checkpoint has (_write, _read).
 */
#ifndef TIDE_SELFGAMES_H
#define TIDE_SELFGAMES_H

#include "game/evaluator.h"
#include "game/search.h"
#include "train/replay_ring.h"

struct tide_selfgames_rule {
    struct tide_search_rule search;
    int64_t games;         /* at once */
    int64_t simulations;   /* visits of the root before a move is made, those that were kept included */
    int64_t children;      /* of a tree; as many as simulations can need: it never fills */
    double openings;       /* share of self-play's games that begin with a random opening (opening.h) */
    int64_t sampled_plies; /* so long moves are drawn by their visits; then the most visited is made */
    size_t cache_bytes;
    uint64_t seed;
};

/* Bytes of each of its parts, which _place gets one by one, each at a multiple of 64 and zeros. */
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

/* What happened since _place, or in the last call. */
struct tide_selfgames_counts {
    int64_t games, moves;      /* ended; made */
    int64_t first_wins, draws; /* of those games */
    int64_t simulations;       /* descents */
    int64_t evaluations;       /* positions that the net valued */
    int64_t asked, found;      /* of the cache */
    int64_t full;              /* times that a tree had no room for more children */
    uint64_t trees_high_water; /* bytes */
};

/* Plays until so many positions of games that ended were put into the replay since the beginning, or until
 * somebody hurries (asked in every round; NULL: nobody does); every game then stands after a move. -1: the
 * evaluator failed. counts: of this call. */
int tide_selfgames_play(struct tide_selfgames *games, const struct tide_evaluator *evaluator,
                        struct tide_replay *replay, int64_t until, bool (*hurries)(void),
                        struct tide_selfgames_counts *ret_counts);

/* Of the first of two. */
struct tide_selfgames_score {
    int64_t wins, draws, losses;
};

/* Plays pairs of games between two evaluators, each pair from one opening (opening.h) with colours exchanged,
 * then the best move always. Games under way stay as they are. 1: somebody hurries, and there is no score. */
int tide_selfgames_match(struct tide_selfgames *games, const struct tide_evaluator *const evaluators[2],
                         int64_t pairs, uint64_t seed, bool (*hurries)(void),
                         struct tide_selfgames_score *ret_score);

/* The moves so far of the first game under way, by their names. */
void tide_selfgames_show(const struct tide_selfgames *games, char *out, size_t size);

/* Games under way, to a file and back. The bytes are not trusted. */
void tide_selfgames_write(const struct tide_selfgames *games, struct tide_durable *file);
int tide_selfgames_read(struct tide_selfgames *games, FILE *file, struct tide_err *err);

#endif
