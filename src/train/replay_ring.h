/*
 * replay_ring.h - positions of played games, for training: a ring buffer of fixed size.
 *
 * A record is a packed position (game.h), how a search divided its visits among the moves, in 16 bits each,
 * and the result of the game for the side to move. The ring is in the caller's memory; once it is full, the
 * newest position replaces the oldest. Symmetries are applied when positions are drawn. In games without
 * falling stones the rules are the same for both sides; there half of the draws also exchange who began.
 * Otherwise a net that always sees who began learns that the first player wins, and nothing more for the
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
    size_t record;    /* bytes of a record */
    int64_t capacity; /* positions */
    int64_t put;      /* positions ever put; the ring has the last `capacity` */
};

/* Bytes of a record. */
size_t tide_replay_record_bytes(const struct tide_game *game);

/* Makes a ring of `capacity` records at `memory`; both must outlive it. */
struct tide_replay tide_replay_over(const struct tide_game *game, int64_t capacity, void *memory);

/* Packs a position with its visits, of all moves. _settle sets the value later. */
void tide_replay_pack(const struct tide_game *game, const struct tide_position *position,
                      const uint32_t *visits, uint8_t *ret_record);
/* -1 to 1, for the side to move. */
void tide_replay_settle(const struct tide_game *game, uint8_t *record, float value);

void tide_replay_put(struct tide_replay *replay, const uint8_t *record);

/* Returns how many positions the ring has. */
int64_t tide_replay_count(const struct tide_replay *replay);

/* Draws a random position, turned by a symmetry: `number` (from 0) of the draw `draw` of a seed. The ring
 * must not be empty. Allocates nothing. */
void tide_replay_draw(const struct tide_replay *replay, uint64_t seed, uint64_t draw, uint64_t number,
                      float *ret_planes, float *ret_policy, float *ret_value);

/* Writes the ring to a file and reads it back. The file is not trusted: each position is checked. */
void tide_replay_write(const struct tide_replay *replay, struct tide_durable *file);
int tide_replay_read(struct tide_replay *replay, FILE *file, struct tide_err *err);

/* Checks that a record is one that packing makes. */
int tide_replay_check(const struct tide_game *game, const uint8_t *record, struct tide_err *err);

#endif
