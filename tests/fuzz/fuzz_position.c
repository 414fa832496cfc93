/* fuzz_position.c - any bytes as a packed position: what is taken can be played on. The first byte says which
 * game. */
#include "base/check.h"
#include "game/game.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tictactoe", "connect4", "gomoku", "gomoku"};
    struct tide_game game;
    if (size < 1)
        return 0;
    int kind = data[0] & 3;
    TIDE_CHECK(tide_game_of(names[kind], kind < 2 ? 0 : 6, kind == 3, &game, NULL), ==, 0);
    play_on(&game, data + 1, size - 1);
    return 0;
}
