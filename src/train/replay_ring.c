#include "train/replay_ring.h"
#include "base/random.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

enum { WHOLE = 65535, VALUE_WHOLE = 32767 };

/* A record: the packed position, the share of visits of each move, the value. */
static size_t shares_at(const struct tide_game *game)
{
    return (tide_position_packed_bytes(game) + 1) / 2 * 2;
}

static size_t value_at(const struct tide_game *game)
{
    return shares_at(game) + (size_t)game->moves * sizeof(uint16_t);
}

size_t tide_replay_record_bytes(const struct tide_game *game)
{
    return value_at(game) + sizeof(int16_t);
}

struct tide_replay tide_replay_over(const struct tide_game *game, int64_t capacity, void *memory)
{
    return (struct tide_replay){
        .game = game, .records = memory, .record = tide_replay_record_bytes(game), .capacity = capacity};
}

static uint16_t share_of(const struct tide_game *game, const uint8_t *record, int move)
{
    uint16_t share;
    memcpy(&share, record + shares_at(game) + (size_t)move * sizeof share, sizeof share);
    return share;
}

static int16_t value_of(const struct tide_game *game, const uint8_t *record)
{
    int16_t value;
    memcpy(&value, record + value_at(game), sizeof value);
    return value;
}

void tide_replay_pack(const struct tide_game *game, const struct tide_position *position,
                      const uint32_t *visits, uint8_t *ret_record)
{
    uint64_t sum = 0;
    memset(ret_record, 0, tide_replay_record_bytes(game));
    tide_position_pack(game, position, ret_record);
    for (int i = 0; i < game->moves; i++)
        sum += visits[i];
    for (int i = 0; i < game->moves && sum; i++) {
        uint16_t share = (uint16_t)((visits[i] * (uint64_t)WHOLE + sum / 2) / sum);
        memcpy(ret_record + shares_at(game) + (size_t)i * sizeof share, &share, sizeof share);
    }
}

void tide_replay_settle(const struct tide_game *game, uint8_t *record, float value)
{
    int16_t whole = (int16_t)lrintf(value * VALUE_WHOLE);
    memcpy(record + value_at(game), &whole, sizeof whole);
}

void tide_replay_put(struct tide_replay *replay, const uint8_t *record)
{
    memcpy(replay->records + (size_t)(replay->put % replay->capacity) * replay->record, record,
           replay->record);
    replay->put++;
}

int64_t tide_replay_count(const struct tide_replay *replay)
{
    return replay->put < replay->capacity ? replay->put : replay->capacity;
}

/* Who began is one of the planes (game.h). */
static void exchange_colours(const struct tide_game *game, float *planes)
{
    for (int cell = 0; cell < game->cells; cell++)
        planes[cell * TIDE_PLANES + 3] = 1 - planes[cell * TIDE_PLANES + 3];
}

void tide_replay_draw(const struct tide_replay *replay, uint64_t seed, uint64_t draw, uint64_t number,
                      float *ret_planes, float *ret_policy, float *ret_value)
{
    const struct tide_game *game = replay->game;
    struct tide_random random = {.seed = tide_random_at(seed, draw, number)};
    uint32_t at = tide_random_below(&random, (uint32_t)tide_replay_count(replay));
    int symmetry = (int)tide_random_below(&random, (uint32_t)game->symmetries);
    const uint8_t *record = replay->records + (size_t)at * replay->record;
    struct tide_position position;
    float sum = 0;
    tide_position_unpack(game, record, &position, NULL);
    tide_position_planes(game, &position, symmetry, ret_planes);
    if (!game->drops && tide_random_below(&random, 2))
        exchange_colours(game, ret_planes);
    for (int move = 0; move < game->moves; move++) {
        float share = (float)share_of(game, record, move);
        ret_policy[tide_game_symmetric(game, symmetry, move)] = share;
        sum += share;
    }
    for (int move = 0; move < game->moves && sum > 0; move++)
        ret_policy[move] /= sum;
    *ret_value = (float)value_of(game, record) / VALUE_WHOLE;
}

/* ---- files */

void tide_replay_write(const struct tide_replay *replay, struct tide_durable *file)
{
    tide_durable_put(file, &replay->put, sizeof replay->put);
    tide_durable_put(file, replay->records, (size_t)tide_replay_count(replay) * replay->record);
}

/* Visits on an illegal move, or none at all, would teach nonsense. */
int tide_replay_check(const struct tide_game *game, const uint8_t *record, struct tide_err *err)
{
    struct tide_position position;
    uint64_t sum = 0;
    if (tide_position_unpack(game, record, &position, err))
        return -1;
    if (position.outcome != TIDE_PLAYING)
        return tide_err_set(err, "a position of the replay is the end of a game");
    for (int move = 0; move < game->moves; move++) {
        uint16_t share = share_of(game, record, move);
        if (share && !tide_position_may(game, &position, move))
            return tide_err_set(err, "a position of the replay has visits of an impossible move");
        sum += share;
    }
    if (!sum || sum > WHOLE + (uint64_t)game->moves)
        return tide_err_set(err, "a position of the replay has visits that do not add up");
    return value_of(game, record) < -VALUE_WHOLE
               ? tide_err_set(err, "a position of the replay has an impossible value")
               : 0;
}

int tide_replay_read(struct tide_replay *replay, FILE *file, struct tide_err *err)
{
    int64_t put;
    if (fread(&put, sizeof put, 1, file) != 1)
        return tide_err_set(err, "the replay is cut off");
    if (put < 0 || put > TIDE_LARGEST)
        return tide_err_set(err, "the replay has an impossible number of positions");
    replay->put = put;
    int64_t count = tide_replay_count(replay);
    if (fread(replay->records, replay->record, (size_t)count, file) != (size_t)count)
        return tide_err_set(err, "the replay is cut off");
    for (int64_t i = 0; i < count; i++)
        if (tide_replay_check(replay->game, replay->records + (size_t)i * replay->record, err))
            return -1;
    return 0;
}
