/*
 * test_saved.c - games in files: what is written is read back, and what others wrote wrongly gets a sentence.
 */
#include "play/saved.h"
#include "game_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_saved.XXXXXX");
    return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink("a.psq");
    unlink("a.sgf");
    return chdir("/") || rmdir(folder);
}

static struct tide_saved parsed(const char *text)
{
    struct tide_saved saved;
    struct tide_err err = {0};
    if (tide_saved_parse(text, strlen(text), &saved, &err))
        fail_msg("%s", err.text);
    return saved;
}

static void a_psq_of_the_manager_is_read(void **state)
{
    (void)state;
    struct tide_saved saved = parsed("Piskvorky 20x20, 11:11, 0\r\n10,11,0\r\n11,11,1520\r\n3,20,7\r\n"
                                     "pbrain-a.zip\r\npbrain-b.zip\r\n-1\r\n1,Freestyle\r\n");
    assert_int_equal(saved.columns, 20);
    assert_int_equal(saved.rows, 20);
    assert_int_equal(saved.count, 3);
    assert_int_equal(saved.cells[0], 10 * 20 + 9);
    assert_int_equal(saved.cells[2], 19 * 20 + 2);
    assert_int_equal(saved.ms[1], 1520);
    assert_string_equal(saved.names[0], "pbrain-a.zip");
    assert_string_equal(saved.names[1], "pbrain-b.zip");
    saved = parsed("Piskvorky 15x15, 0:6, 1\n8,8,0\n-1\n"); /* no names */
    assert_int_equal(saved.count, 1);
    assert_string_equal(saved.names[0], "");
}

static void an_sgf_of_others_is_read(void **state)
{
    (void)state;
    struct tide_saved saved = parsed(
        "\xef\xbb\xbf (;GM[4]FF[4]\nSZ[15]PB[Jo\\]hn]PW[\x1b[2J\\\\]C[a \\] ; B[zz\\] (]\n;B[hh]C[]\n;W[gh]"
        "(;B[aa](;W[oo])(;W[ab]))(;B[bb]))(;SZ[9]B[zz])");
    assert_int_equal(saved.columns, 15);
    assert_int_equal(saved.count, 4); /* the main line of the first game */
    assert_int_equal(saved.cells[1], 7 * 15 + 6);
    assert_int_equal(saved.cells[3], 14 * 15 + 14);
    assert_string_equal(saved.names[0], "Jo]hn");
    assert_string_equal(saved.names[1], "\\x1b[2J\\");
    saved = parsed("(;SZ[7:6]GaMe[4]Black[de])"); /* letters of old files */
    assert_int_equal(saved.rows, 6);
    assert_int_equal(saved.count, 1);
}

static void what_is_no_game_gets_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "neither"},
        {"hello", "neither"},
        {"Piskvorky", "neither"},
        {"Piskvorky \n", "how large"},
        {"Piskvorky 15\n1,1,0\n", "how large"},
        {"Piskvorky 0x15, 0:0, 0\n", "0x15"},
        {"Piskvorky 999999999999x15, 0:0, 0\n", "not supported"},
        {"Piskvorky 15x15, 0:0, 0\n16,1,0\n", "move 1 is not on the board"},
        {"Piskvorky 15x15, 0:0, 0\n0,1,0\n", "move 1 is not on the board"},
        {"Piskvorky 15x15, 0:0, 0\n1,1,0\n1,1,0\n", "move 2 is on a stone"},
        {"(", "ends within"},
        {"(;", "ends within"},
        {"(;SZ[15", "ends within a value"},
        {"(;SZ[15\\", "ends within a value"},
        {"(;SZ[15\\]", "ends within a value"},
        {"(;SZ[x])", "not a number"},
        {"(;SZ[7:x])", "not a number"},
        {"(;SZ[21])", "not supported"},
        {"(;)", "how large"},
        {"(;B[aa])", "how large"},
        {"(;GM[1]SZ[15])", "another game"},
        {"(;GM[4]SZ[15]AB[aa])", "sets up stones"},
        {"(;SZ[15];W[aa])", "wrong side"},
        {"(;SZ[15];B[aa];B[bb])", "move 2 is by the wrong side"},
        {"(;SZ[15];B[aa];W[])", "move 2 is not a point"},
        {"(;SZ[15];B[h8])", "move 1 is not a point"},
        {"(;SZ[15];B[pa])", "move 1 is not on the board"},
        {"(;SZ[15];B[aa];W[aa])", "move 2 is on a stone"},
        {"(;SZ[15];B[aa]SZ[9])", "after the first move"},
        {"(;SZ[15]B)", "no value"},
        {"(;SZ[15]!)", "not SGF"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tide_saved saved = {.count = -7};
        struct tide_err err = {0};
        if (!tide_saved_parse(cases[i].text, strlen(cases[i].text), &saved, &err))
            fail_msg("'%s' was read", cases[i].text);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' is said of '%s'", err.text, cases[i].text);
        assert_int_equal(saved.count, -7);
    }
}

static void play_on(struct tide_saved *saved, const struct tide_game *game, const char *moves)
{
    struct tide_position position;
    *saved = (struct tide_saved){.columns = game->columns, .rows = game->rows, .exact = game->exact};
    tide_position_begin(game, &position);
    for (char name[8]; sscanf(moves, "%7s", name) == 1; moves += strspn(moves, " ") + strlen(name)) {
        int move = move_of(game, name);
        assert_true(tide_position_may(game, &position, move));
        saved->ms[saved->count] = saved->count * 100;
        saved->cells[saved->count++] = (int16_t)tide_position_cell(game, &position, move);
        tide_position_play(game, &position, move);
    }
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.psq", "a.sgf"};
    static const struct {
        const char *name, *moves;
        int board;
        bool exact;
    } games[] = {{"gomoku", "h8 i9 a1 t20 t1", 20, false},
                 {"gomoku", "c3 e5", 5, true},
                 {"gomoku", "", 15, false},
                 {"tictactoe", "b2 a1 c3", 0, false},
                 {"connect4", "d d c d a g", 0, false}};
    for (size_t i = 0; i < sizeof games / sizeof *games; i++) {
        struct tide_game game = game_of(games[i].name, games[i].board, games[i].exact);
        struct tide_saved wrote;
        play_on(&wrote, &game, games[i].moves);
        strcpy(wrote.names[0], "a]b\\c:d");
        strcpy(wrote.names[1], "tidemark");
        for (size_t p = 0; p < 2; p++) {
            struct tide_saved got;
            struct tide_position position;
            struct tide_err err = {0};
            int16_t moves[TIDE_BOARD_CELLS];
            if (tide_saved_write(&wrote, &game, -1, paths[p], &err) ||
                tide_saved_read(paths[p], &got, &err) ||
                tide_saved_replay(&got, &game, &position, moves, &err))
                fail_msg("%s", err.text);
            assert_int_equal(got.count, wrote.count);
            assert_memory_equal(got.cells, wrote.cells, sizeof *got.cells * (size_t)got.count);
            assert_memory_equal(got.names, wrote.names, sizeof got.names);
            assert_int_equal(position.plies, wrote.count);
            if (p == 0)
                assert_memory_equal(got.ms, wrote.ms, sizeof *got.ms * (size_t)got.count);
            else
                assert_int_equal(got.exact, wrote.exact);
        }
    }
}

static void the_files_are_what_others_read(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 15, true);
    struct tide_saved saved;
    struct tide_err err = {0};
    char text[512];
    play_on(&saved, &game, "h8 i9 a1");
    strcpy(saved.names[0], "you");
    assert_int_equal(tide_saved_write(&saved, &game, 0, "a.psq", &err), 0);
    FILE *in = fopen("a.psq", "r");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    assert_string_equal(text, "Piskvorky 15x15, 11:11, 0\n8,8,0\n9,7,100\n1,15,200\nyou\n\"\"\n-1\n");
    assert_int_equal(tide_saved_write(&saved, &game, 0, "a.sgf", &err), 0);
    in = fopen("a.sgf", "r");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    assert_string_equal(text,
                        "(;FF[4]GM[4]CA[UTF-8]AP[tidemark]SZ[15]GN[gomoku]RU[exactly five]PB[you]RE[B+]\n"
                        ";B[hh];W[ig];B[ao])\n");
}

static void stones_that_cannot_be_are_not_played(void **state)
{
    (void)state;
    static const struct {
        const char *text, *game, *says;
        int board;
    } cases[] = {
        {"(;SZ[15];B[hh])", "gomoku", "on a board of 15x15", 20},
        {"(;SZ[7:6];B[aa])", "connect4", "move 1", 0},                              /* in the air */
        {"(;SZ[3];B[aa];W[ba];B[ab];W[bb];B[ac];W[bc])", "tictactoe", "move 6", 0}, /* after the end */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tide_game game = game_of(cases[i].game, cases[i].board, false);
        struct tide_saved saved = parsed(cases[i].text);
        struct tide_position position;
        struct tide_err err = {0};
        int16_t moves[TIDE_BOARD_CELLS];
        assert_int_equal(tide_saved_replay(&saved, &game, &position, moves, &err), -1);
        assert_non_null(strstr(err.text, cases[i].says));
    }
}

static void names_of_files_say_their_form(void **state)
{
    (void)state;
    enum tide_saved_form form;
    struct tide_err err = {0};
    struct tide_game game = game_of("gomoku", 15, false);
    struct tide_saved saved = {.columns = 15, .rows = 15};
    assert_int_equal(tide_saved_form_of("x/y.PSQ", &form, &err), 0);
    assert_int_equal(form, TIDE_SAVED_PSQ);
    assert_int_equal(tide_saved_form_of("a.psq.sgf", &form, &err), 0);
    assert_int_equal(form, TIDE_SAVED_SGF);
    assert_int_equal(tide_saved_form_of("a.sgf/b", &form, &err), -1);
    assert_string_equal(err.text, "'a.sgf/b' ends in neither .psq nor .sgf");
    assert_int_equal(tide_saved_write(&saved, &game, -1, "nowhere/a.psq", &err), -1);
    assert_int_equal(tide_saved_read("nowhere/a.psq", &saved, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_psq_of_the_manager_is_read),
        cmocka_unit_test(an_sgf_of_others_is_read),
        cmocka_unit_test(what_is_no_game_gets_a_sentence),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_files_are_what_others_read, set_up, tear_down),
        cmocka_unit_test(stones_that_cannot_be_are_not_played),
        cmocka_unit_test_setup_teardown(names_of_files_say_their_form, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
