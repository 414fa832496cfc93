/*
 * What programs that learn are measured by: the solver of Connect Four against playing every game to its end
 * and against what is known of the game; perfect tic-tac-toe; Gomoku positions with one right answer.
 */
#include "connect4_solver.h"
#include "game_fixture.h"
#include "gomoku_tactics.h"
#include "sanitized.h"
#include "tictactoe_perfect.h"

static struct tide_position random_position(const struct tide_game *game, int plies,
                                            struct tide_random *random)
{
    struct tide_position position;
    tide_position_begin(game, &position);
    while (position.plies < plies) {
        uint16_t moves[TIDE_BOARD_CELLS];
        int count = tide_position_moves(game, &position, moves);
        if (count == 0)
            tide_position_begin(game, &position);
        else
            tide_position_play(game, &position, moves[tide_random_below(random, (uint32_t)count)]);
    }
    return position;
}

/* The score by playing every game: no table, no order, no bounds. */
static int every_game(const struct tide_game *game, const struct tide_position *position)
{
    uint16_t moves[TIDE_BOARD_CELLS];
    int count = tide_position_moves(game, position, moves), best = -100;
    for (int i = 0; i < count; i++) {
        struct tide_position next = *position;
        tide_position_play(game, &next, moves[i]);
        int score = next.outcome == TIDE_WON     ? (game->cells + 1 - position->plies) / 2
                    : next.outcome == TIDE_DRAWN ? 0
                                                 : -every_game(game, &next);
        best = score > best ? score : best;
    }
    return best;
}

static void the_solver_says_what_all_games_say(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct connect4_solver *solver = connect4_solver_new(16);
    struct tide_random random = {.seed = 5};
    assert_non_null(solver);
    int counts[3] = {0};
    for (int n = 0; n < (is_slow() ? 200 : 600); n++) {
        struct tide_position position = random_position(&game, 30 + n % 12, &random);
        if (position.outcome != TIDE_PLAYING)
            continue;
        int score = every_game(&game, &position), result = (score > 0) - (score < 0);
        assert_int_equal(connect4_solver_score(solver, &position), score);
        assert_int_equal(connect4_solver_result(solver, &position), result);
        unsigned best = connect4_solver_best(solver, &position), expected = 0;
        for (int move = 0; move < 7; move++) {
            struct tide_position next = position;
            if (!tide_position_may(&game, &position, move))
                continue;
            tide_position_play(&game, &next, move);
            int after = next.outcome == TIDE_WON     ? 1
                        : next.outcome == TIDE_DRAWN ? 0
                                                     : -every_game(&game, &next);
            if ((after > 0) - (after < 0) == result)
                expected |= 1U << move;
        }
        assert_int_equal(best, expected);
        counts[1 + result]++;
    }
    assert_true(counts[0] > 3 && counts[1] > 0 && counts[2] > 3);
    connect4_solver_free(solver);
}

/* Positions of Pascal Pons' benchmark, as the columns played, and their scores. */
static void the_solver_gives_the_scores_that_are_published(void **state)
{
    (void)state;
    const struct {
        const char *columns;
        int score;
    } all[] = {
        {"2252576253462244111563365343671351441", -1},
        {"7422341735647741166133573473242566", 1},
        {"23163416124767223154467471272416755633", 0},
        {"65214673556155731566316327373221417", -1},
        {"5554224333234511764415115", 4},
        {"52753311433677442422121", 8},
        {"122435527534575161761", 10},
        {"43745416472735", -13},
        {"427631264721", 10},
        {"22144426444", 15},
        {"32164625", 11},
        {"265756512", -12},
        {"335662333565", -2},
        {"157564142155", -5},
    };
    struct tide_game game = game_of("connect4", 0, false);
    struct connect4_solver *solver = connect4_solver_new(20);
    assert_non_null(solver);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tide_position position;
        tide_position_begin(&game, &position);
        for (const char *column = all[i].columns; *column; column++)
            tide_position_play(&game, &position, *column - '1');
        assert_int_equal(connect4_solver_score(solver, &position), all[i].score);
        assert_int_equal(connect4_solver_result(solver, &position), (all[i].score > 0) - (all[i].score < 0));
    }
    connect4_solver_free(solver);
}

/* Where all games are too many: turned left for right, and seen from a move later, a position is worth the
 * same. */
static void the_solver_agrees_with_itself(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct connect4_solver *solver = connect4_solver_new(20);
    assert_non_null(solver);
    struct tide_random random = {.seed = 2};
    for (int n = 0; n < (is_slow() ? 3 : 40); n++) {
        struct tide_position position = random_position(&game, 20, &random), mirror;
        if (position.outcome != TIDE_PLAYING)
            continue;
        uint8_t bytes[13], turned[13] = {0};
        tide_position_pack(&game, &position, bytes);
        int last = tide_game_symmetric(&game, 1, position.last);
        turned[0] = (uint8_t)last;
        for (int cell = 0; cell < game.cells; cell++) {
            int to = tide_game_symmetric(&game, 1, cell);
            turned[2 + to / 4] |= (uint8_t)((bytes[2 + cell / 4] >> cell % 4 * 2 & 3) << to % 4 * 2);
        }
        assert_int_equal(tide_position_unpack(&game, turned, &mirror, NULL), 0);
        int score = connect4_solver_score(solver, &position), best = -100;
        assert_int_equal(connect4_solver_score(solver, &mirror), score);
        for (int move = 0; move < 7; move++) {
            struct tide_position next = position;
            if (!tide_position_may(&game, &position, move))
                continue;
            tide_position_play(&game, &next, move);
            int after =
                next.outcome == TIDE_WON ? (43 - position.plies) / 2 : -connect4_solver_score(solver, &next);
            best = after > best ? after : best;
        }
        assert_int_equal(best, score);
    }
    connect4_solver_free(solver);
}

static void perfect_tic_tac_toe_is_a_draw_that_mistakes_lose(void **state)
{
    (void)state;
    struct tide_game game = game_of("tictactoe", 0, false);
    struct tide_position position;
    tide_position_begin(&game, &position);
    assert_int_equal(tictactoe_perfect_result(&game, &position), 0);
    assert_int_equal(tictactoe_perfect_best(&game, &position), 0x1ff);
    position = played(&game, "a1"); /* only the centre holds against a corner */
    assert_int_equal(tictactoe_perfect_best(&game, &position), 1U << 4);
    position = played(&game, "b2"); /* only corners hold against the centre */
    assert_int_equal(tictactoe_perfect_best(&game, &position), 1U << 0 | 1U << 2 | 1U << 6 | 1U << 8);
    position = played(&game, "a1 b1");
    assert_int_equal(tictactoe_perfect_result(&game, &position), 1);
    position = played(&game, "a1 a2 b1 b2 c1");
    assert_int_equal(tictactoe_perfect_result(&game, &position), -1);
    assert_int_equal(tictactoe_perfect_best(&game, &position), 0);
}

static void tactics_have_the_answers_that_playing_them_shows(void **state)
{
    (void)state;
    const struct tide_game games[] = {game_of("gomoku", 9, false), game_of("gomoku", 15, true)};
    for (int g = 0; g < 2; g++)
        for (uint64_t number = 0; number < (is_slow() ? 40 : 1000); number++) {
            struct gomoku_tactic tactic = gomoku_tactic_make(&games[g], 1, number);
            struct gomoku_tactic again = gomoku_tactic_make(&games[g], 1, number);
            assert_memory_equal(&tactic, &again, sizeof tactic);
            assert_int_equal(tactic.kind, number % 2 ? GOMOKU_BLOCKS : GOMOKU_WINS);
            assert_int_equal(tactic.position.outcome, TIDE_PLAYING);
            int right = 0;
            for (int move = 0; move < games[g].moves; move++) {
                struct tide_position next = tactic.position;
                bool is_right = tide_cell_in(tactic.right, move);
                right += is_right;
                if (!tide_position_may(&games[g], &next, move)) {
                    assert_false(is_right);
                    continue;
                }
                tide_position_play(&games[g], &next, move);
                if (tactic.kind == GOMOKU_WINS) {
                    assert_int_equal(next.outcome == TIDE_WON, is_right);
                    continue;
                }
                uint64_t answers[TIDE_BOARD_WORDS], any = 0;
                assert_int_not_equal(next.outcome, TIDE_WON);
                tide_position_completing(&games[g], &next, next.plies & 1, answers);
                for (int word = 0; word < TIDE_BOARD_WORDS; word++)
                    any |= answers[word];
                assert_int_equal(any == 0, is_right); /* any other move loses at once */
            }
            assert_true(right >= 1 && (tactic.kind == GOMOKU_WINS || right == 1));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_solver_says_what_all_games_say),
        cmocka_unit_test(the_solver_gives_the_scores_that_are_published),
        cmocka_unit_test(the_solver_agrees_with_itself),
        cmocka_unit_test(perfect_tic_tac_toe_is_a_draw_that_mistakes_lose),
        cmocka_unit_test(tactics_have_the_answers_that_playing_them_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
