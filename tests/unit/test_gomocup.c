/*
 * test_gomocup.c - the protocol of tournament managers, with a player that takes the first empty cell.
 */
#include "base/buf.h"
#include "play/gomocup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct tide_gomocup g;
static struct tide_buf said;
static bool ended;

static int set_up(void **state)
{
    (void)state;
    tide_gomocup_init(&g, "name=\"Test\"", 0);
    tide_buf_init(&said, 1 << 20);
    ended = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_buf_release(&said);
    return 0;
}

static void feed(const char *bytes, size_t len)
{
    while (len && !ended) {
        enum tide_gomocup_want want;
        size_t taken = tide_gomocup_feed(&g, bytes, len, &want);
        bytes += taken;
        len -= taken;
        ended = want == TIDE_GOMOCUP_ENDS;
        if (want == TIDE_GOMOCUP_THINKS) {
            int move = 0;
            while (!tide_position_may(&g.game, &g.position, move))
                move++;
            tide_gomocup_move(&g, move);
        }
        if (want == TIDE_GOMOCUP_ANSWERS || want == TIDE_GOMOCUP_THINKS)
            tide_buf_text(&said, g.answer);
    }
}

/* All that is answered to all that is said. */
static const char *talk(const char *text)
{
    tide_buf_clear(&said);
    feed(text, strlen(text));
    return tide_buf_view(&said);
}

static void a_game_is_played_by_turns(void **state)
{
    (void)state;
    assert_string_equal(talk("START 15\r\n"), "OK\n");
    assert_string_equal(talk("BEGIN\r\n"), "0,0\n");
    assert_string_equal(talk("TURN 2,0\r\n"), "1,0\n");
    assert_string_equal(talk("TURN 4,3\r\n"), "3,0\n");
    assert_int_equal(g.position.plies, 4);
    assert_true(tide_cell_in(g.position.stones[1], 3 * 15 + 4)); /* X is the column, Y the row */
    assert_string_equal(talk("RESTART\r\n"), "OK\n");
    assert_string_equal(talk("TURN 0,0\n"), "1,0\n");
    assert_true(tide_cell_in(g.position.stones[0], 0)); /* who moves first is the first player */
    talk("END\n");
    assert_true(ended);
}

static void lines_end_in_any_way_and_words_are_of_any_case(void **state)
{
    (void)state;
    assert_string_equal(talk("start 20\rbegin\rTurn 1,0\r"), "OK\n0,0\n2,0\n");
    assert_string_equal(talk("\r\n\n  \t \r\n"), "");
    assert_string_equal(talk("  TURN\t 5 , 5 \n"), "3,0\n");
}

static void bytes_may_come_one_by_one(void **state)
{
    (void)state;
    tide_buf_clear(&said);
    for (const char *c = "START 5\r\nBEGIN\r\n"; *c; c++)
        feed(c, 1);
    assert_string_equal(tide_buf_view(&said), "OK\n0,0\n");
}

static void a_board_is_set_up_in_any_order(void **state)
{
    (void)state;
    assert_string_equal(talk("START 15\nBOARD\n7,7,2\n8,8,2\n6,6,1\n5,5,1\nDONE\n"), "OK\n0,0\n");
    assert_int_equal(g.position.plies, 4);
    assert_int_equal(g.position.last, 8 * 15 + 8);
    assert_true(tide_cell_in(g.position.stones[0], 6 * 15 + 6)); /* as many own ones: it began */
    assert_string_equal(talk("RESTART\nBOARD\n7,7,2\nDONE\n"), "OK\n0,0\n");
    assert_true(tide_cell_in(g.position.stones[0], 7 * 15 + 7));
    assert_string_equal(talk("RESTART\nBOARD\nDONE\n"), "OK\n0,0\n");
    assert_int_equal(g.position.plies, 0);
}

static void a_board_that_cannot_be_leaves_the_old_one(void **state)
{
    (void)state;
    static const char *const boards[] = {
        "7,7,1\nDONE\n",                /* not its turn */
        "7,7,2\n7,7,1\nDONE\n",         /* on a stone */
        "7,7,2\n15,0,1\n1,1,2\nDONE\n", /* outside */
        "7,7,3\nDONE\n",                /* a field that only other rules have */
        "7,7,2\nnonsense\n6,6,1\n\xff\nDONE\n",
        "0,0,2\n1,0,2\n2,0,2\n3,0,2\n4,0,2\n0,2,1\n1,2,1\n2,2,1\n3,2,1\nDONE\n", /* over */
    };
    talk("START 15\nBEGIN\n");
    for (size_t i = 0; i < sizeof boards / sizeof *boards; i++) {
        talk("BOARD\n");
        const char *answer = talk(boards[i]);
        assert_ptr_equal(strstr(answer, "ERROR "), answer);
        assert_ptr_equal(strchr(answer, '\n'), answer + strlen(answer) - 1); /* one line */
        assert_int_equal(g.stones.count, 1);
    }
    assert_string_equal(talk("TURN 1,0\n"), "2,0\n");
    assert_string_equal(talk("BOARD\n3,3,2\nRESTART\n"), "OK\n"); /* a command ends it, too */
    assert_string_equal(talk("TURN 1,0\n"), "0,0\n");
}

static void what_cannot_be_is_an_error_and_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *line, *answer;
    } cases[] = {
        {"TURN 15,0\n", "ERROR 15,0 is not on the board of 15x15\n"},
        {"TURN 0,-1\n", "ERROR 0,-1 is not on the board of 15x15\n"},
        {"TURN 99999999999999999999,0\n", "ERROR 1000000,0 is not on the board of 15x15\n"},
        {"TURN 0,0\n", "ERROR there is a stone on 0,0 already\n"},
        {"TURN\n", "ERROR expected coordinates X,Y\n"},
        {"TURN 1\n", "ERROR expected coordinates X,Y\n"},
        {"TURN 1,2,3\n", "ERROR expected coordinates X,Y\n"},
        {"TURN a,b\n", "ERROR expected coordinates X,Y\n"},
        {"BEGIN\n", "ERROR the board is not empty\n"},
        {"TAKEBACK 9,9\n", "ERROR there is no stone on 9,9\n"},
        {"TAKEBACK 15,15\n", "ERROR 15,15 is not on the board of 15x15\n"},
        {"START 4\n", NULL},
        {"START 21\n", NULL},
        {"START -5\n", NULL},
        {"START\n", "ERROR expected START SIZE\n"},
        {"RECTSTART 20,15\n", "ERROR the board must be square\n"},
        {"RECTSTART 20\n", "ERROR expected RECTSTART WIDTH,HEIGHT\n"},
        {"INFO rule 4\n", "ERROR rule 4 is not supported: 0 is five or more, 1 exactly five\n"},
        {"INFO max_memory lots\n", "ERROR expected INFO max_memory NUMBER\n"},
        {"FLY 1,2\n", "UNKNOWN FLY\n"},
        {"SUGGEST 1,2\n", "UNKNOWN SUGGEST\n"},
        {"\x1b[2J\n", "UNKNOWN \\x1b[2J\n"},
    };
    talk("START 15\nBEGIN\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *answer = talk(cases[i].line);
        if (cases[i].answer)
            assert_string_equal(answer, cases[i].answer);
        assert_true(!strncmp(answer, "ERROR ", 6) || !strncmp(answer, "UNKNOWN ", 8));
        assert_int_equal(g.stones.count, 1);
        assert_int_equal(g.game.columns, 15);
    }
    assert_string_equal(talk("TURN 5,5\n"), "1,0\n");
}

static void before_the_start_there_is_no_game(void **state)
{
    (void)state;
    assert_string_equal(talk("BEGIN\nTURN 1,1\nBOARD\n1,1,2\nDONE\nRESTART\nTAKEBACK 1,1\n"),
                        "ERROR START comes first\nERROR START comes first\nERROR START comes first\n"
                        "ERROR START comes first\nERROR START comes first\n");
    assert_string_equal(talk("ABOUT\n"), "name=\"Test\"\n");
}

static void a_line_of_ten_megabytes_is_an_error(void **state)
{
    (void)state;
    size_t len = 10 << 20;
    char *bytes = malloc(len);
    assert_non_null(bytes);
    memset(bytes, '7', len);
    bytes[len - 1] = '\n';
    assert_string_equal(talk("START 15\nBEGIN\n"), "OK\n0,0\n");
    tide_buf_clear(&said);
    feed(bytes, len);
    assert_string_equal(tide_buf_view(&said), "ERROR the line is longer than 1023 bytes\n");
    assert_string_equal(talk("TURN 1,0\n"), "2,0\n");
    talk("BOARD\n");
    feed(bytes, len);
    assert_string_equal(talk("DONE\n"), "ERROR expected X,Y,1 or X,Y,2 or DONE after BOARD\n");
    free(bytes);
}

static void a_nul_ends_no_command(void **state)
{
    (void)state;
    tide_buf_clear(&said);
    feed("ABOUT\0x\n", 8);
    assert_string_equal(tide_buf_view(&said), "UNKNOWN \\xff\n");
}

static void stones_are_taken_back(void **state)
{
    (void)state;
    assert_string_equal(talk("START 15\nBEGIN\nTURN 5,5\n"), "OK\n0,0\n1,0\n");
    assert_string_equal(talk("TAKEBACK 1,0\nTAKEBACK 5,5\n"), "OK\nOK\n");
    assert_string_equal(talk("TURN 1,0\n"), "2,0\n");
    assert_int_equal(g.position.plies, 2);
    assert_string_equal(talk("TAKEBACK 1,0\nTURN 3,0\n"),
                        "OK\nERROR it is not this player's turn: it has 2 stones, and the other has 1\n");
}

static void info_is_kept_and_not_answered(void **state)
{
    (void)state;
    assert_string_equal(talk("INFO timeout_turn 5000\nINFO timeout_match 100000\nINFO time_left 99000\n"
                             "INFO max_memory 350000000\nINFO game_type 1\nINFO folder /tmp\nINFO\n"
                             "INFO evaluate 1,1\n"),
                        "");
    assert_int_equal(g.limits.turn_ms, 5000);
    assert_int_equal(g.limits.match_ms, 100000);
    assert_int_equal(g.limits.left_ms, 99000);
    assert_int_equal(g.limits.memory_bytes, 350000000);
    talk("INFO time_left -20\n");
    assert_int_equal(g.limits.left_ms, 0);
    talk("INFO time_left 2147483647\n");
    assert_int_equal(g.limits.left_ms, 2147483647);
}

static void the_rule_decides_what_six_are(void **state)
{
    (void)state;
    static const char gap[] =
        "RESTART\nBOARD\n0,5,2\n1,5,2\n2,5,2\n4,5,2\n5,5,2\n0,9,1\n2,9,1\n4,9,1\n6,9,1\nDONE\n";
    assert_string_equal(talk("START 15\n"), "OK\n");
    assert_string_equal(talk(gap), "OK\n0,0\n");
    assert_string_equal(talk("TURN 3,5\n"), "ERROR the game is over\n"); /* six win */
    assert_string_equal(talk("INFO rule 1\n"), "");
    assert_string_equal(talk(gap), "OK\n0,0\n");
    assert_string_equal(talk("TURN 3,5\n"), "1,0\n"); /* six do not */
    assert_string_equal(talk("START 20\nINFO rule 0\n"), "OK\n");
    assert_string_equal(talk(gap), "OK\n0,0\n");
    assert_string_equal(talk("TURN 3,5\n"), "ERROR the game is over\n");
}

static void a_net_has_one_board(void **state)
{
    (void)state;
    tide_gomocup_init(&g, "", 15);
    assert_string_equal(talk("START 20\n"), "ERROR this net plays on a board of 15x15\n");
    assert_string_equal(talk("START 15\nBEGIN\n"), "OK\n0,0\n");
}

static void a_move_that_fails_takes_its_command_back(void **state)
{
    (void)state;
    enum tide_gomocup_want want;
    talk("START 15\n");
    tide_gomocup_feed(&g, "TURN 3,3\n", 9, &want);
    assert_int_equal(want, TIDE_GOMOCUP_THINKS);
    tide_gomocup_fail(&g, "there is no room");
    assert_string_equal(g.answer, "ERROR there is no room\n");
    assert_string_equal(talk("TURN 3,3\n"), "0,0\n");
}

static void the_end_is_seen_before_it_is_taken(void **state)
{
    (void)state;
    assert_true(tide_gomocup_is_ending("\r\nEND\r\n", 7));
    assert_true(tide_gomocup_is_ending("end\n", 4));
    assert_false(tide_gomocup_is_ending("END", 3));
    assert_false(tide_gomocup_is_ending("ENDS\n", 5));
    assert_false(tide_gomocup_is_ending("TURN 1,1\nEND\n", 13));
    assert_false(tide_gomocup_is_ending("", 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_game_is_played_by_turns),
        TEST(lines_end_in_any_way_and_words_are_of_any_case),
        TEST(bytes_may_come_one_by_one),
        TEST(a_board_is_set_up_in_any_order),
        TEST(a_board_that_cannot_be_leaves_the_old_one),
        TEST(what_cannot_be_is_an_error_and_changes_nothing),
        TEST(before_the_start_there_is_no_game),
        TEST(a_line_of_ten_megabytes_is_an_error),
        TEST(a_nul_ends_no_command),
        TEST(stones_are_taken_back),
        TEST(info_is_kept_and_not_answered),
        TEST(the_rule_decides_what_six_are),
        TEST(a_net_has_one_board),
        TEST(a_move_that_fails_takes_its_command_back),
        TEST(the_end_is_seen_before_it_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
