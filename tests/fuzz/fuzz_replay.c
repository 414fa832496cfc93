/*
 * fuzz_replay.c - any bytes as the positions and the games under way that a run of self-play saved. The first
 * byte says which game. What is read can be learned from and played on.
 */
#include "base/check.h"
#include "rt/cpu/threads.h"
#include "train/selfgames.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CAPACITY = 12, MORE = 8 };

static int value_all_alike(void *context, const struct tide_position *positions, int count, float *logits,
                           float *values)
{
    const struct tide_game *game = context;
    (void)positions;
    memset(logits, 0, (size_t)count * (size_t)game->moves * sizeof *logits);
    memset(values, 0, (size_t)count * sizeof *values);
    return 0;
}

static void *zeros(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    TIDE_CHECK_TRUE(memory);
    return memset(memory, 0, bytes);
}

static void learn(const struct tide_replay *replay)
{
    static float planes[TIDE_BOARD_CELLS * TIDE_PLANES], policy[TIDE_BOARD_CELLS];
    for (uint64_t i = 0; i < 2 * CAPACITY && tide_replay_count(replay); i++) {
        float value, sum = 0;
        tide_replay_draw(replay, 1, 1, i, planes, policy, &value);
        for (int move = 0; move < replay->game->moves; move++)
            sum += policy[move];
        TIDE_CHECK_TRUE(fabsf(sum - 1) < 1e-3F && fabsf(value) <= 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tictactoe", "connect4", "gomoku"};
    const struct tide_selfgames_rule rule = {
        .search = {.exploration = 1.8F, .first_play = 0.2F, .noise_alpha = 0.3F, .noise_share = 0.25F},
        .games = 2,
        .simulations = 4,
        .children = 600,
        .cache_bytes = 1 << 12,
        .seed = 1};
    struct tide_game game;
    struct tide_err err = {.text = ""};
    if (size < 2)
        return 0;
    TIDE_CHECK(tide_game_of(names[data[0] % 3], data[0] % 3 < 2 ? 0 : 6, false, &game, NULL), ==, 0);
    tide_threads_set(1);
    struct tide_selfgames_room room = tide_selfgames_room(&game, &rule);
    void *parts[] = {zeros(room.trees), zeros(room.records), zeros(room.cache), zeros(room.games),
                     zeros(CAPACITY * tide_replay_record_bytes(&game))};
    struct tide_selfgames *games =
        tide_selfgames_place(&game, &rule, &room, parts[0], parts[1], parts[2], parts[3]);
    struct tide_replay replay = tide_replay_over(&game, CAPACITY, parts[4]);

    FILE *file = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r");
    TIDE_CHECK_TRUE(file);
    if (tide_replay_read(&replay, file, &err) || tide_selfgames_read(games, file, &err)) {
        TIDE_CHECK_TRUE(err.text[0]);
    } else {
        struct tide_evaluator alike = {.most = 16, .evaluate = value_all_alike, .context = &game};
        struct tide_selfgames_counts counts;
        learn(&replay);
        TIDE_CHECK(tide_selfgames_play(games, &alike, &replay, replay.put + MORE, NULL, &counts), ==, 0);
        learn(&replay);
    }
    fclose(file);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        free(parts[i]);
    return 0;
}
