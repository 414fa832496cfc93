/*
 * replay_ring.h - positions of games that were played, for training: a ring of fixed bytes.
 *
 * A position is packed (game.h); beside it lies how a search divided its visits among the moves, in 16 bits
 * for each, and what the game came to for the side to move. The ring lies in memory of the caller; once it is
 * full the newest position takes the place of the oldest. Symmetries are drawn when positions are. Where
 * stones do not fall, the rules are the same for both sides; there who began is exchanged in half of the
 * draws. A net that is always told who began learns that the first player wins, and nothing more for the
 * other side.
 */
#ifndef TIDE_REPLAY_RING_H
#define TIDE_REPLAY_RING_H

#include "base/durable.h"
#include "base/err.h"
#include "game/game.h"

struct tide_replay {
    const struct tide_game *game;
    uint8_t *records;
    size_t record;    /* bytes of one */
    int64_t capacity; /* positions */
    int64_t put;      /* positions ever; those that are there: at most `capacity` */
};

/* Of one position. */
size_t tide_replay_record_bytes(const struct tide_game *game);

/* Over `capacity` records at `memory`; both must outlive it. */
struct tide_replay tide_replay_over(const struct tide_game *game, int64_t capacity, void *memory);

/* Packs a position with its visits. The value is not known yet: _settle puts it in. visits: of all moves. */
void tide_replay_pack(const struct tide_game *game, const struct tide_position *position,
                      const uint32_t *visits, uint8_t *ret_record);
/* -1 to 1, for the side to move. */
void tide_replay_settle(const struct tide_game *game, uint8_t *record, float value);

void tide_replay_put(struct tide_replay *replay, const uint8_t *record);

/* Positions that are there. */
int64_t tide_replay_count(const struct tide_replay *replay);

/* A random position, turned by a symmetry: `number` (from 0) of the draw `draw` of a seed. There must be one.
 * Allocates nothing. */
void tide_replay_draw(const struct tide_replay *replay, uint64_t seed, uint64_t draw, uint64_t number,
                      float *ret_planes, float *ret_policy, float *ret_value);

/* What is there, to a file and back. The bytes of a file are not trusted: each position is looked at. */
void tide_replay_write(const struct tide_replay *replay, struct tide_durable *file);
int tide_replay_read(struct tide_replay *replay, FILE *file, struct tide_err *err);

/* Whether a record is one that packing makes. */
int tide_replay_check(const struct tide_game *game, const uint8_t *record, struct tide_err *err);

#endif
