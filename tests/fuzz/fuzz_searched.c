/*
 * fuzz_searched.c - any bytes as a packed position, and as the saved search of a game: what is taken can be
 * played and searched on. The first byte says which game, and whether it is one or the other.
 */
#include "base/check.h"
#include "game/search.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHILDREN = 600, MEMORY = 64 << 10 };

static void play_on(const struct tide_game *game, const uint8_t *data, size_t size)
{
    struct tide_position position;
    struct tide_err err = {.text = ""};
    uint8_t again[128];
    static float planes[TIDE_BOARD_CELLS * TIDE_PLANES];
    if (size != tide_position_packed_bytes(game))
        return;
    if (tide_position_unpack(game, data, &position, &err)) {
        TIDE_CHECK_TRUE(err.text[0]);
        return;
    }
    tide_position_pack(game, &position, again);
    TIDE_CHECK(memcmp(data, again, size), ==, 0);
    tide_position_planes(game, &position, game->symmetries - 1, planes);
    for (int move = 0; move < game->moves; move++)
        if (tide_position_may(game, &position, move))
            tide_position_play(game, &position, move);
}

static void search_on(const struct tide_game *game, const uint8_t *data, size_t size)
{
    static _Alignas(64) char memory[MEMORY];
    static const float logits[TIDE_BOARD_CELLS];
    const struct tide_search_rule rule = {.exploration = 1.8F, .first_play = 0.2F};
    struct tide_err err = {.text = ""};
    TIDE_CHECK(tide_search_bytes(game, CHILDREN), <=, MEMORY);
    struct tide_search *search = tide_search_place(game, &rule, CHILDREN, memory);
    if (tide_search_load(search, data, size, &err))
        TIDE_CHECK_TRUE(err.text[0]);
    for (int i = 0; i < 30; i++) {
        struct tide_leaf leaf;
        if (tide_search_descend(search, &leaf) == TIDE_NEEDS_EVALUATION)
            tide_search_give(search, &leaf, logits, 0.25F);
    }
    int move = tide_search_choose(search, 0, NULL);
    if (move >= 0)
        tide_search_advance(search, move);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tictactoe", "connect4", "gomoku", "gomoku"};
    struct tide_game game;
    if (size < 1)
        return 0;
    int kind = data[0] & 3;
    TIDE_CHECK(tide_game_of(names[kind], kind < 2 ? 0 : 6, kind == 3, &game, NULL), ==, 0);
    if (data[0] & 4)
        search_on(&game, data + 1, size - 1);
    else
        play_on(&game, data + 1, size - 1);
    return 0;
}
