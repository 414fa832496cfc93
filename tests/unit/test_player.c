/*
 * test_player.c - who moves for the program: it finds what must be found, keeps its tree, and its limits.
 */
#include "base/clock.h"
#include "play/player.h"
#include "game_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct tide_player player;
static struct tide_game game;

static void begin(const char *name, int board)
{
    struct tide_err err = {0};
    if (tide_game_of(name, board, false, &game, &err) || tide_player_init_rollouts(&player, &game, 1, &err))
        fail_msg("%s", err.text);
}

static int tear_down(void **state)
{
    (void)state;
    tide_player_release(&player);
    return 0;
}

static struct tide_position after(const char *moves)
{
    struct tide_position position;
    tide_position_begin(&game, &position);
    for (char name[8]; sscanf(moves, "%7s", name) == 1; moves += strspn(moves, " ") + strlen(name)) {
        int move = move_of(&game, name);
        assert_true(tide_position_may(&game, &position, move));
        tide_position_play(&game, &position, move);
    }
    return position;
}

static void set(const struct tide_position *position)
{
    struct tide_err err = {0};
    if (tide_player_set(&player, &game, position, &err))
        fail_msg("%s", err.text);
}

/* The name of the move that is best after so many simulations. */
static const char *best(const char *moves, int64_t simulations)
{
    static char name[TIDE_MOVE_NAME];
    struct tide_position position = after(moves);
    struct tide_turn turn = {.simulations = simulations};
    struct tide_err err = {0};
    set(&position);
    while (!tide_player_step(&player, &turn, TIDE_NS_PER_S, &err))
        ;
    assert_int_equal(turn.done, simulations);
    return tide_move_name(&game, tide_player_best(&player), name);
}

static void lines_are_completed_and_stopped(void **state)
{
    (void)state;
    begin("tictactoe", 0);
    assert_string_equal(best("a1 b1 a2 b2", 2000), "a3");
    assert_string_equal(best("a1 c3 a2", 2000), "a3");
    tide_player_release(&player);
    begin("connect4", 0);
    assert_string_equal(best("d c d c d c", 4000), "d");
    assert_string_equal(best("d c d c d", 4000), "d");
    tide_player_release(&player);
    begin("gomoku", 15);
    assert_string_equal(best("h8 a1 i8 b3 j8 a5 k8 l8", 100), "g8");
    assert_string_equal(best("a1 h8 b3 i8 a5 j8 g8 k8", 100), "l8");
    assert_string_equal(best("", 50), "h8");
}

static void the_mind_is_sorted_and_adds_up(void **state)
{
    (void)state;
    struct tide_thought thoughts[9];
    begin("tictactoe", 0);
    best("b2", 1000);
    int count = tide_player_mind(&player, thoughts, 9);
    assert_int_equal(count, 8);
    uint32_t sum = 0;
    for (int i = 0; i < count; i++) {
        assert_true(i == 0 || thoughts[i].visits <= thoughts[i - 1].visits);
        assert_true(thoughts[i].win >= 0 && thoughts[i].win <= 1);
        sum += thoughts[i].visits;
    }
    assert_int_equal(sum, 999); /* the root's own is the first */
    assert_int_equal(tide_player_mind(&player, thoughts, 3), 3);
    assert_int_equal(thoughts[0].move, tide_player_best(&player));
    best("a1 b1 a2 b2", 1000);
    tide_player_mind(&player, thoughts, 1);
    assert_true(thoughts[0].win > 0.95f);
}

static void what_it_will_play_comes_first_of_equals(void **state)
{
    (void)state;
    struct tide_thought thoughts[9];
    int ties = 0;
    for (int64_t simulations = 2; simulations < 30; simulations++) {
        begin("gomoku", 9);
        best("e5", simulations);
        int count = tide_player_mind(&player, thoughts, 9);
        assert_true(count > 0);
        assert_int_equal(thoughts[0].move, tide_player_best(&player));
        ties += count > 1 && thoughts[0].visits == thoughts[1].visits;
        tide_player_release(&player);
    }
    assert_true(ties > 0);
    begin("gomoku", 9);
}

static uint32_t visits(void)
{
    return tide_search_count(player.search).visits;
}

static void the_tree_is_kept_where_a_position_follows(void **state)
{
    (void)state;
    begin("tictactoe", 0);
    best("b2", 3000);
    struct tide_position same = after("b2"), two = after("b2 a1 c2"), other = after("a1 a2 a3"),
                         back = after("a1");
    set(&same);
    assert_int_equal(visits(), 3000);
    set(&two);
    assert_true(visits() > 0 && visits() < 3000);
    set(&other);
    assert_int_equal(visits(), 0);
    best("a1 a2 a3", 100);
    set(&back);
    assert_int_equal(visits(), 0);
}

static void another_rule_is_another_tree(void **state)
{
    (void)state;
    struct tide_err err = {0};
    begin("gomoku", 9);
    best("e5", 100);
    assert_int_equal(tide_game_of("gomoku", 9, true, &game, &err), 0);
    struct tide_position same = after("e5");
    set(&same);
    assert_int_equal(visits(), 0);
    assert_true(player.rollouts.game->exact);
    assert_int_equal(tide_game_of("gomoku", 20, false, &game, &err), 0);
    assert_int_equal(strlen(best("j10", 200)) >= 2, true);
}

static void it_stops_in_time(void **state)
{
    (void)state;
    struct tide_err err = {0};
    begin("gomoku", 15);
    struct tide_position position = after("h8");
    set(&position);
    int64_t began_ns = tide_clock_ns();
    struct tide_turn turn = {.deadline_ns = began_ns + 50 * TIDE_NS_PER_MS};
    int steps = 0;
    while (!tide_player_step(&player, &turn, 10 * TIDE_NS_PER_MS, &err))
        steps++;
    assert_true(tide_clock_ns() >= turn.deadline_ns);
    assert_true(steps >= 1 && turn.done > 0);
    turn = (struct tide_turn){.deadline_ns = 1}; /* long past: at least a little */
    assert_int_equal(tide_player_step(&player, &turn, TIDE_NS_PER_S, &err), 1);
    assert_true(turn.done > 0);
}

static void the_only_move_needs_no_thought(void **state)
{
    (void)state;
    struct tide_err err = {0};
    begin("tictactoe", 0);
    struct tide_position position = after("a1 b2 c3 a3 c1 c2 a2 b1");
    struct tide_turn turn = {.simulations = 1000000};
    set(&position);
    assert_int_equal(tide_player_step(&player, &turn, TIDE_NS_PER_S * INT64_C(100), &err), 1);
    assert_true(turn.done < 1000);
    assert_int_equal(tide_player_best(&player), move_of(&game, "b3"));
}

static void memory_is_what_is_left_of_the_limit(void **state)
{
    (void)state;
    struct tide_err err = {0};
    begin("gomoku", 15);
    assert_int_equal(tide_player_limit(&player, 1000000, &err), -1);
    assert_non_null(strstr(err.text, "1000000 bytes of memory are too few"));
    assert_null(player.memory);
    assert_int_equal(tide_player_limit(&player, INT64_C(200) << 20, &err), 0);
    int64_t small = player.bytes;
    assert_true(small < INT64_C(200) << 20);
    assert_int_equal(tide_player_limit(&player, INT64_C(300) << 20, &err), 0);
    assert_true(player.bytes > small + (INT64_C(90) << 20));
    assert_int_equal(tide_player_limit(&player, 0, &err), 0);
    assert_int_equal(player.bytes, TIDE_PLAYER_BYTES);
}

/* A net that values everything alike, and counts how often it is asked. */
static int alike(void *context, const struct tide_position *positions, int count, float *logits,
                 float *values)
{
    (void)positions;
    *(int *)context += count;
    memset(logits, 0, (size_t)count * (size_t)game.moves * sizeof *logits);
    memset(values, 0, (size_t)count * sizeof *values);
    return *(int *)context > 5000 ? -1 : 0;
}

static void a_net_is_asked_once_for_a_position(void **state)
{
    (void)state;
    struct tide_err err = {0};
    int asked = 0;
    struct tide_evaluator evaluator = {.most = 8, .evaluate = alike, .context = &asked};
    assert_int_equal(tide_game_of("tictactoe", 0, false, &game, &err), 0);
    assert_int_equal(tide_player_init(&player, &game, &evaluator, &err), 0);
    assert_int_equal(asked, 24); /* it is warm */
    best("", 2000);
    int first = asked;
    assert_int_equal(tide_player_limit(&player, 0, &err), 0);
    best("", 2000);
    assert_true(asked > first); /* another memory, another cache */
    first = asked;
    struct tide_position other = after("a1"), none = after("");
    set(&other);
    set(&none);
    best("", 1000);
    assert_int_equal(asked, first);
    asked = 10000;
    struct tide_turn turn = {.simulations = 100000};
    int status;
    while (!(status = tide_player_step(&player, &turn, TIDE_NS_PER_S, &err)))
        ;
    assert_int_equal(status, -1);
    assert_string_equal(err.text, "the net's values are not numbers");
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_are_completed_and_stopped),
        TEST(the_mind_is_sorted_and_adds_up),
        TEST(what_it_will_play_comes_first_of_equals),
        TEST(the_tree_is_kept_where_a_position_follows),
        TEST(another_rule_is_another_tree),
        TEST(it_stops_in_time),
        TEST(the_only_move_needs_no_thought),
        TEST(memory_is_what_is_left_of_the_limit),
        TEST(a_net_is_asked_once_for_a_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
