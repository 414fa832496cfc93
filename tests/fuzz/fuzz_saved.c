/*
 * fuzz_saved.c - any bytes as a saved game. One that is read has distinct stones on its board; what the rules
 * allow of it is written in both forms and read back as the same.
 */
#include "base/check.h"
#include "play/saved.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char paths[2][64];

static void clean_up(void)
{
    unlink(paths[0]);
    unlink(paths[1]);
}

static void name_files(void)
{
    if (paths[0][0])
        return;
    snprintf(paths[0], sizeof paths[0], "/dev/shm/fuzz-saved-%d.psq", (int)getpid());
    snprintf(paths[1], sizeof paths[1], "/dev/shm/fuzz-saved-%d.sgf", (int)getpid());
    atexit(clean_up);
}

static void check(const struct tide_saved *saved)
{
    uint64_t cells[TIDE_BOARD_WORDS] = {0};
    TIDE_CHECK(saved->columns, <=, TIDE_BOARD_SIDE);
    TIDE_CHECK(saved->rows, <=, TIDE_BOARD_SIDE);
    TIDE_CHECK(saved->count, <=, saved->columns * saved->rows);
    for (int i = 0; i < saved->count; i++) {
        TIDE_CHECK(saved->cells[i], >=, 0);
        TIDE_CHECK(saved->cells[i], <, saved->columns * saved->rows);
        TIDE_CHECK_TRUE(!tide_cell_in(cells, saved->cells[i]));
        tide_cell_add(cells, saved->cells[i]);
    }
}

static void round_trip(const struct tide_saved *saved, const struct tide_game *game)
{
    name_files();
    for (int i = 0; i < 2; i++) {
        struct tide_saved again;
        struct tide_err err = {0};
        TIDE_CHECK(tide_saved_write(saved, game, -1, paths[i], &err), ==, 0);
        TIDE_CHECK(tide_saved_read(paths[i], &again, &err), ==, 0);
        TIDE_CHECK(again.columns, ==, saved->columns);
        TIDE_CHECK(again.rows, ==, saved->rows);
        TIDE_CHECK(again.count, ==, saved->count);
        TIDE_CHECK(memcmp(again.cells, saved->cells, sizeof again.cells), ==, 0);
        for (int player = 0; i == 1 && player < 2; player++)
            TIDE_CHECK(strcmp(again.names[player], saved->names[player]), ==, 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"gomoku", "tictactoe", "connect4"};
    struct tide_saved saved;
    struct tide_err err = {0};
    if (tide_saved_parse((const char *)data, size, &saved, &err)) {
        TIDE_CHECK_TRUE(err.text[0] != '\0');
        return 0;
    }
    check(&saved);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tide_game game;
        struct tide_position position;
        int16_t moves[TIDE_BOARD_CELLS];
        if (tide_game_of(names[i], i ? 0 : saved.columns, i == 0 && saved.exact, &game, &err) ||
            tide_saved_replay(&saved, &game, &position, moves, &err))
            continue;
        TIDE_CHECK(position.plies, ==, saved.count);
        round_trip(&saved, &game);
    }
    return 0;
}
