/* Openings of matches: few stones, many kinds, and the most even of those that were drawn. */
#include "game/opening.h"
#include "game_fixture.h"

#include <math.h>

enum { GAMES = 6, ROOM = 64 };

static void make_games(struct tide_game ret_games[GAMES])
{
    ret_games[0] = game_of("tictactoe", 0, false);
    ret_games[1] = game_of("connect4", 0, false);
    ret_games[2] = game_of("gomoku", 5, false);
    ret_games[3] = game_of("gomoku", 9, true);
    ret_games[4] = game_of("gomoku", 15, false);
    ret_games[5] = game_of("gomoku", 20, false);
}

static void nobody_is_a_move_from_a_line(void **state)
{
    (void)state;
    struct tide_game games[GAMES];
    make_games(games);
    for (int g = 0; g < GAMES; g++) {
        const struct tide_game *game = &games[g];
        bool seen[2] = {false};
        for (uint64_t number = 0; number < 500; number++) {
            struct tide_position p;
            uint64_t cells[TIDE_BOARD_WORDS], any = 0;
            uint16_t moves[TIDE_OPENING_MOVES];
            struct tide_position again;
            int count = tide_opening_draw(game, 3, number, 0, moves, &p);
            tide_position_begin(game, &again);
            for (int i = 0; i < count; i++)
                tide_position_play(game, &again, moves[i]);
            assert_memory_equal(&again, &p, sizeof p);
            assert_int_equal(p.outcome, TIDE_PLAYING);
            for (int side = 0; side < 2; side++) {
                tide_position_completing(game, &p, side, cells);
                for (int word = 0; word < TIDE_BOARD_WORDS; word++)
                    any |= cells[word];
            }
            assert_int_equal(any, 0);
            assert_true(p.plies >= 1);
            seen[p.plies & 1] = true;
        }
        assert_true(seen[0] && seen[1]); /* either side may be to move */
    }
}

/* How far from the middle the stones of a side are. */
static int spread_of(const struct tide_game *game, const struct tide_position *p, int side)
{
    int most = 0;
    for (int cell = 0; cell < game->cells; cell++)
        if (tide_cell_in(p->stones[side], cell)) {
            int row = abs(cell / game->columns - game->rows / 2),
                column = abs(cell % game->columns - game->columns / 2);
            most = row > most ? row : most;
            most = column > most ? column : most;
        }
    return most;
}

static void openings_are_of_many_kinds(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 15, false);
    enum { COUNT = 200 };
    uint64_t keys[COUNT];
    int wider[3] = {0}; /* the first player's stones, nobody's, the other's */
    for (uint64_t number = 0; number < COUNT; number++) {
        struct tide_position p;
        uint16_t moves[TIDE_OPENING_MOVES];
        tide_opening_draw(&game, 3, number, 0, moves, &p);
        keys[number] = tide_position_key(&game, &p);
        for (uint64_t before = 0; before < number; before++)
            assert_true(keys[before] != keys[number]);
        int spreads[2] = {spread_of(&game, &p, 0), spread_of(&game, &p, 1)};
        assert_true(spreads[0] <= 7 && spreads[1] <= 7);
        wider[spreads[0] > spreads[1] + 2 ? 0 : spreads[1] > spreads[0] + 2 ? 2 : 1]++;
    }
    assert_true(wider[0] > COUNT / 10 && wider[1] > COUNT / 10 && wider[2] > COUNT / 20);
}

/* What two opinions come to, added. */
static float opinion_of(struct tide_evaluator both[2], const struct tide_position *position)
{
    float logits[TIDE_BOARD_CELLS], values[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(both[i].evaluate(both[i].context, position, 1, logits, &values[i]), 0);
    return fabsf(values[0] + values[1]);
}

static void the_most_even_is_taken(void **state)
{
    (void)state;
    struct tide_game games[GAMES];
    make_games(games);
    struct tide_position positions[ROOM];
    float *logits = calloc((size_t)ROOM * TIDE_BOARD_CELLS, sizeof *logits), values[ROOM];
    assert_non_null(logits);
    for (int g = 0; g < GAMES; g++) {
        const struct tide_game *game = &games[g];
        struct opinion a = {.game = game, .seed = 1, .spread = 2, .certain = 1, .fails_after = -1}, b = a;
        b.seed = 2;
        for (uint64_t number = 0; number < 20; number++) {
            const int most[] = {1, 5, TIDE_OPENINGS - 1, ROOM};
            struct tide_position expected = {0}, p;
            uint16_t moves[TIDE_OPENING_MOVES];
            struct tide_evaluator both[2] = {opinion_evaluator(&a, ROOM), opinion_evaluator(&b, ROOM)};
            float nearest = INFINITY;
            for (uint64_t draw = 0; draw < TIDE_OPENINGS; draw++) {
                tide_opening_draw(game, 9, number, draw, moves, &p);
                float value = opinion_of(both, &p);
                if (value < nearest) {
                    nearest = value;
                    expected = p;
                }
            }
            /* However many are valued at once, and whoever is asked first. */
            for (int i = 0; i < 12; i++) {
                struct tide_evaluator first = opinion_evaluator(&a, most[i % 4]),
                                      second = opinion_evaluator(&b, most[3 - i / 4]);
                const struct tide_evaluator *const forth[2] = {&first, &second}, *const back[2] = {&second,
                                                                                                   &first};
                struct tide_opening_room room = {positions, logits, values, most[(i + 1) % 4]};
                assert_int_equal(tide_opening_choose(game, forth, 9, number, &room, &p), 0);
                assert_memory_equal(&p, &expected, sizeof p);
                assert_int_equal(tide_opening_choose(game, back, 9, number, &room, &p), 0);
                assert_memory_equal(&p, &expected, sizeof p);
            }
        }
    }
    free(logits);
}

static void an_evaluator_that_fails_is_told(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct opinion a = {.game = &game, .fails_after = -1}, b = {.game = &game, .fails_after = 2};
    struct tide_evaluator first = opinion_evaluator(&a, 8), second = opinion_evaluator(&b, 8);
    const struct tide_evaluator *const both[2] = {&first, &second};
    struct tide_position positions[8], p;
    float logits[8 * TIDE_BOARD_CELLS], values[8];
    struct tide_opening_room room = {positions, logits, values, 8};
    assert_int_equal(tide_opening_choose(&game, both, 1, 1, &room, &p), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_a_move_from_a_line),
        cmocka_unit_test(openings_are_of_many_kinds),
        cmocka_unit_test(the_most_even_is_taken),
        cmocka_unit_test(an_evaluator_that_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
