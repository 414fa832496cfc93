/*
 * Games: numbers of positions that are known, and random games against a second implementation that shares
 * nothing with the first: a board of characters, scanned whole after every move.
 */
#include "game_fixture.h"
#include "sanitized.h"

/* ---- the second implementation */

struct plain {
    int columns, rows, line;
    bool exact, drops;
    char at[TIDE_BOARD_SIDE][TIDE_BOARD_SIDE]; /* ' ', 'x' or 'o' */
};

static struct plain plain_of(const struct tide_game *game)
{
    struct plain plain = {game->columns, game->rows, game->line, game->exact, game->drops, {{0}}};
    memset(plain.at, ' ', sizeof plain.at);
    return plain;
}

static char plain_at(const struct plain *plain, int row, int column)
{
    return row >= 0 && row < plain->rows && column >= 0 && column < plain->columns ? plain->at[row][column]
                                                                                   : '#';
}

/* Whether a run of this stone begins here, in this direction, and wins. */
static bool plain_run_wins(const struct plain *plain, char stone, int row, int column, int down, int right)
{
    if (plain_at(plain, row - down, column - right) == stone)
        return false;
    int length = 0;
    while (plain_at(plain, row + length * down, column + length * right) == stone)
        length++;
    return plain->exact ? length == plain->line : length >= plain->line;
}

static bool plain_wins(const struct plain *plain, char stone)
{
    for (int row = 0; row < plain->rows; row++)
        for (int column = 0; column < plain->columns; column++)
            for (int down = 0; down <= 1; down++)
                for (int right = -1; right <= 1; right++)
                    if ((down || right > 0) && plain_run_wins(plain, stone, row, column, down, right))
                        return true;
    return false;
}

static bool plain_is_full(const struct plain *plain)
{
    for (int row = 0; row < plain->rows; row++)
        if (memchr(plain->at[row], ' ', (size_t)plain->columns))
            return false;
    return true;
}

/* The row that a move's stone comes to, -1 if it may not be played. */
static int plain_row(const struct plain *plain, int move)
{
    if (!plain->drops)
        return plain->at[move / plain->columns][move % plain->columns] == ' ' ? move / plain->columns : -1;
    int row = plain->rows - 1;
    while (row >= 0 && plain->at[row][move] != ' ')
        row--;
    return row;
}

/* ---- both together */

static void same_stones(const struct tide_game *game, const struct tide_position *position,
                        const struct plain *plain)
{
    for (int cell = 0; cell < game->cells; cell++) {
        char stone = tide_cell_in(position->stones[0], cell)   ? 'x'
                     : tide_cell_in(position->stones[1], cell) ? 'o'
                                                               : ' ';
        assert_int_equal(stone, plain->at[cell / game->columns][cell % game->columns]);
    }
}

static void same_moves(const struct tide_game *game, const struct tide_position *position,
                       const struct plain *plain, bool ended)
{
    uint16_t moves[TIDE_BOARD_CELLS];
    int count = tide_position_moves(game, position, moves), expected = 0;
    for (int move = 0; move < game->moves; move++) {
        bool may = !ended && plain_row(plain, move) >= 0;
        assert_int_equal(tide_position_may(game, position, move), may);
        if (may) {
            assert_true(expected < count);
            assert_int_equal(moves[expected++], move);
        }
    }
    assert_int_equal(count, expected);
    assert_int_equal(tide_position_choices(game, position), expected);
    assert_false(tide_position_may(game, position, -1));
    assert_false(tide_position_may(game, position, game->moves));
    assert_false(tide_position_may(game, position, 1 << 30));
}

/* Cells where one more stone wins, by putting it there. */
static void same_completing(const struct tide_game *game, const struct tide_position *position,
                            struct plain *plain)
{
    for (int side = 0; side < 2; side++) {
        uint64_t cells[TIDE_BOARD_WORDS];
        tide_position_completing(game, position, side, cells);
        for (int cell = 0; cell < game->cells; cell++) {
            int row = cell / game->columns, column = cell % game->columns;
            char *at = &plain->at[row][column], stone = side ? 'o' : 'x';
            bool wins = false;
            if (*at == ' ' && (!game->drops || plain_row(plain, column) == row)) {
                /* Exactly five: a line that is there already is broken by a sixth, but games end at lines. */
                *at = stone;
                wins = plain_wins(plain, stone);
                *at = ' ';
            }
            assert_int_equal(tide_cell_in(cells, cell), wins);
        }
        for (int cell = game->cells; cell < TIDE_BOARD_WORDS * 64; cell++)
            assert_false(tide_cell_in(cells, cell));
    }
}

/* One random game, which prefers to play near the last stone, so that lines come about. */
static enum tide_outcome play_both(const struct tide_game *game, struct tide_random *random)
{
    struct tide_position position;
    struct plain plain = plain_of(game);
    tide_position_begin(game, &position);
    for (int ply = 0; position.outcome == TIDE_PLAYING; ply++) {
        assert_int_equal(position.plies, ply);
        same_moves(game, &position, &plain, false);
        if (ply % 7 == 0)
            same_completing(game, &position, &plain);
        uint16_t moves[TIDE_BOARD_CELLS];
        int count = tide_position_moves(game, &position, moves), move = -1;
        for (int tries = 0; tries < 6; tries++) {
            move = moves[tide_random_below(random, (uint32_t)count)];
            int row = move / game->columns, column = move % game->columns;
            if (game->drops || position.last < 0 ||
                (abs(row - position.last / game->columns) <= 2 &&
                 abs(column - position.last % game->columns) <= 2))
                break;
        }
        char stone = ply % 2 ? 'o' : 'x';
        int row = plain_row(&plain, move), column = move % game->columns;
        assert_int_equal(tide_position_cell(game, &position, move), row * game->columns + column);
        plain.at[row][column] = stone;
        tide_position_play(game, &position, move);
        same_stones(game, &position, &plain);
        assert_int_equal(position.last, row * game->columns + column);
        assert_int_equal(position.outcome, plain_wins(&plain, stone) ? TIDE_WON
                                           : plain_is_full(&plain)   ? TIDE_DRAWN
                                                                     : TIDE_PLAYING);
    }
    same_moves(game, &position, &plain, true);
    return position.outcome;
}

static void random_games_are_those_of_a_plain_implementation(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int board;
        bool exact;
        int games;
    } all[] = {
        {"tictactoe", 0, false, 300}, {"connect4", 0, false, 150}, {"gomoku", 5, false, 60},
        {"gomoku", 5, true, 60},      {"gomoku", 6, true, 100},    {"gomoku", 8, false, 30},
        {"gomoku", 9, true, 40},      {"gomoku", 15, false, 8},    {"gomoku", 20, true, 4},
    };
    int ended[3] = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tide_game game = game_of(all[i].name, all[i].board, all[i].exact);
        struct tide_random random = {.seed = 7 + i};
        for (int n = 0; n < (is_slow() ? 1 + all[i].games / 20 : all[i].games); n++)
            ended[play_both(&game, &random)]++;
    }
    assert_true(ended[TIDE_WON] > 10 && ended[TIDE_DRAWN] > 10);
}

/* ---- known numbers */

static int64_t positions_at(const struct tide_game *game, const struct tide_position *position, int depth)
{
    uint16_t moves[TIDE_BOARD_CELLS];
    int count = tide_position_moves(game, position, moves);
    if (depth == 1)
        return count;
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        struct tide_position next = *position;
        tide_position_play(game, &next, moves[i]);
        sum += positions_at(game, &next, depth - 1);
    }
    return sum;
}

static void positions_of_connect_four_are_as_many_as_known(void **state)
{
    (void)state;
    const int64_t known[] = {7, 49, 343, 2401, 16807, 117649, 823536, 5673234, 39394572};
    struct tide_game game = game_of("connect4", 0, false);
    struct tide_position position;
    tide_position_begin(&game, &position);
    int deepest = is_slow() ? 6 : is_long() ? 9 : 8;
    for (int depth = 1; depth <= deepest; depth++)
        assert_int_equal(positions_at(&game, &position, depth), known[depth - 1]);
}

struct tally {
    int64_t at[10], won[2], drawn;
};

static void count_games(const struct tide_game *game, const struct tide_position *position,
                        struct tally *tally)
{
    tally->at[position->plies]++;
    if (position->outcome == TIDE_WON)
        tally->won[(position->plies - 1) & 1]++;
    else if (position->outcome == TIDE_DRAWN)
        tally->drawn++;
    uint16_t moves[TIDE_BOARD_CELLS];
    int count = tide_position_moves(game, position, moves);
    for (int i = 0; i < count; i++) {
        struct tide_position next = *position;
        tide_position_play(game, &next, moves[i]);
        count_games(game, &next, tally);
    }
}

static void games_of_tic_tac_toe_are_as_many_as_known(void **state)
{
    (void)state;
    const int64_t known[] = {1, 9, 72, 504, 3024, 15120, 54720, 148176, 200448, 127872};
    struct tide_game game = game_of("tictactoe", 0, false);
    struct tide_position position;
    struct tally tally = {0};
    tide_position_begin(&game, &position);
    count_games(&game, &position, &tally);
    for (int depth = 0; depth < 10; depth++)
        assert_int_equal(tally.at[depth], known[depth]);
    assert_int_equal(tally.won[0], 131184);
    assert_int_equal(tally.won[1], 77904);
    assert_int_equal(tally.drawn, 46080);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void collect_keys(const struct tide_game *game, const struct tide_position *position, uint64_t *keys,
                         size_t *count)
{
    keys[(*count)++] = tide_position_key(game, position);
    uint16_t moves[TIDE_BOARD_CELLS];
    int choices = tide_position_moves(game, position, moves);
    for (int i = 0; i < choices; i++) {
        struct tide_position next = *position;
        tide_position_play(game, &next, moves[i]);
        collect_keys(game, &next, keys, count);
    }
}

/* 5,478 arrangements of stones can come about in tic-tac-toe. */
static void a_key_is_that_of_the_stones(void **state)
{
    (void)state;
    struct tide_game game = game_of("tictactoe", 0, false);
    struct tide_position position;
    uint64_t *keys = malloc(549946 * sizeof *keys);
    size_t count = 0, different = 0;
    tide_position_begin(&game, &position);
    collect_keys(&game, &position, keys, &count);
    assert_int_equal(count, 549946);
    qsort(keys, count, sizeof *keys, by_number);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || keys[i] != keys[i - 1];
    assert_int_equal(different, 5478);
    free(keys);
}

/* ---- rules */

static void six_in_a_row_win_unless_it_must_be_five(void **state)
{
    (void)state;
    const char *six = "c3 a1 d3 a3 e3 a5 g3 a7 h3 a9 f3", *five = "c3 a1 d3 a3 e3 a5 g3 a7 f3";
    struct tide_game any = game_of("gomoku", 9, false), exact = game_of("gomoku", 9, true);
    assert_int_equal(played(&any, six).outcome, TIDE_WON);
    assert_int_equal(played(&exact, six).outcome, TIDE_PLAYING);
    assert_int_equal(played(&any, five).outcome, TIDE_WON);
    assert_int_equal(played(&exact, five).outcome, TIDE_WON);
}

static void a_line_does_not_go_on_at_the_other_edge(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 9, false);
    assert_int_equal(played(&game, "g5 a1 h5 c1 i5 e1 a4 g1 b4").outcome, TIDE_PLAYING);
    assert_int_equal(played(&game, "f1 a9 g2 c9 h3 e9 i4 g9 a6").outcome, TIDE_PLAYING);
    game = game_of("connect4", 0, false);
    assert_int_equal(played(&game, "e e f f g g a").outcome, TIDE_PLAYING);
    assert_int_equal(played(&game, "e e f f g g d").outcome, TIDE_WON);
}

static void games_that_cannot_be_are_refused_with_a_sentence(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int board;
        bool exact;
        const char *text, *hint;
    } all[] = {
        {"gomoku", 4, false, "a board of 4 x 4 is too small for 5 in a row: gomoku takes boards from 5 to 20",
         ""},
        {"gomoku", -15, false,
         "a board of -15 x -15 is too small for 5 in a row: gomoku takes boards from 5 to 20", ""},
        {"gomoku", 21, false, "a board of 21 x 21 is too large: gomoku takes boards from 5 to 20", ""},
        {"connect4", 8, false, "connect4 has one board, of 7 columns and 6 rows: it cannot have 8 columns",
         ""},
        {"tictactoe", 0, true, "--exact is for gomoku: in tictactoe more than 3 in a row win too", ""},
        {"gomoko", 0, false, "there is no game 'gomoko'", "did you mean 'gomoku'?"},
        {"chess\n", 0, false, "there is no game 'chess\\x0a'", "games are tictactoe, connect4 and gomoku"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tide_game game = {.line = 77};
        struct tide_err err = {.text = ""};
        assert_int_equal(tide_game_of(all[i].name, all[i].board, all[i].exact, &game, &err), -1);
        assert_string_equal(err.text, all[i].text);
        assert_string_equal(err.hint, all[i].hint);
        assert_int_equal(game.line, 77);
    }
}

static void moves_have_names(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 0, false), drops = game_of("connect4", 0, false);
    char name[TIDE_MOVE_NAME];
    assert_string_equal(tide_move_name(&game, 7 * 15 + 7, name), "h8");
    assert_string_equal(tide_move_name(&game, 0, name), "a15");
    assert_string_equal(tide_move_name(&drops, 3, name), "d");
    assert_string_equal(tide_move_name(&game, 224, name), "o1");
    for (int move = 0; move < game.moves; move++)
        assert_int_equal(move_of(&game, tide_move_name(&game, move, name)), move);
    for (int move = 0; move < drops.moves; move++)
        assert_int_equal(move_of(&drops, tide_move_name(&drops, move, name)), move);
}

/* ---- symmetries */

static void symmetries_are_a_group(void **state)
{
    (void)state;
    const struct tide_game games[] = {game_of("tictactoe", 0, false), game_of("connect4", 0, false),
                                      game_of("gomoku", 6, false)};
    for (int g = 0; g < 3; g++) {
        const struct tide_game *game = &games[g];
        assert_int_equal(game->symmetries, g == 1 ? 2 : 8);
        for (int a = 0; a < game->symmetries; a++)
            for (int b = 0; b < game->symmetries; b++) {
                int found = 0;
                for (int c = 0; c < game->symmetries; c++) {
                    int same = 0;
                    for (int cell = 0; cell < game->cells; cell++)
                        same += tide_game_symmetric(game, b, tide_game_symmetric(game, a, cell)) ==
                                tide_game_symmetric(game, c, cell);
                    found += same == game->cells;
                }
                assert_int_equal(found, 1); /* and so no two are equal */
            }
        for (int cell = 0; cell < game->cells; cell++)
            assert_int_equal(tide_game_symmetric(game, 0, cell), cell);
    }
}

/* Games played turned: the same results, and planes that are the turned ones. */
static void results_and_planes_turn_with_the_board(void **state)
{
    (void)state;
    const struct tide_game games[] = {game_of("tictactoe", 0, false), game_of("connect4", 0, false),
                                      game_of("gomoku", 9, true)};
    static float planes[TIDE_BOARD_CELLS * TIDE_PLANES], turned[TIDE_BOARD_CELLS * TIDE_PLANES];
    for (int g = 0; g < 3; g++) {
        const struct tide_game *game = &games[g];
        struct tide_random random = {.seed = 3};
        for (int symmetry = 0; symmetry < game->symmetries; symmetry++) {
            struct tide_position a, b;
            tide_position_begin(game, &a);
            tide_position_begin(game, &b);
            while (a.outcome == TIDE_PLAYING) {
                uint16_t moves[TIDE_BOARD_CELLS];
                int count = tide_position_moves(game, &a, moves);
                int move = moves[tide_random_below(&random, (uint32_t)count)];
                tide_position_play(game, &a, move);
                tide_position_play(game, &b, tide_game_symmetric(game, symmetry, move));
                assert_int_equal(a.outcome, b.outcome);
                assert_int_equal(b.last, tide_game_symmetric(game, symmetry, a.last));
                tide_position_planes(game, &a, symmetry, turned);
                tide_position_planes(game, &b, 0, planes);
                assert_memory_equal(planes, turned, sizeof(float) * (size_t)(game->cells * TIDE_PLANES));
            }
        }
    }
}

static void planes_show_stones_turn_and_lines_about_to_be(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct tide_position position =
        played(&game, "a b a b a b g"); /* both have three, the second is to move */
    float planes[42 * TIDE_PLANES];
    tide_position_planes(&game, &position, 0, planes);
    float expected[42 * TIDE_PLANES] = {0};
    for (int row = 3; row < 6; row++) {
        expected[(row * 7 + 1) * TIDE_PLANES + 0] = 1;
        expected[(row * 7 + 0) * TIDE_PLANES + 1] = 1;
    }
    expected[(5 * 7 + 6) * TIDE_PLANES + 1] = expected[(5 * 7 + 6) * TIDE_PLANES + 2] = 1;
    expected[(2 * 7 + 0) * TIDE_PLANES + 4] = expected[(2 * 7 + 1) * TIDE_PLANES + 4] = 1;
    assert_memory_equal(planes, expected, sizeof planes);
    tide_position_begin(&game, &position);
    tide_position_planes(&game, &position, 0, planes);
    for (int i = 0; i < 42 * TIDE_PLANES; i++)
        assert_true(planes[i] == (i % TIDE_PLANES == 3));
}

/* ---- packed */

static void a_packed_position_comes_back(void **state)
{
    (void)state;
    const struct tide_game games[] = {game_of("tictactoe", 0, false), game_of("connect4", 0, false),
                                      game_of("gomoku", 6, true), game_of("gomoku", 15, false)};
    const size_t bytes[] = {2 + 3, 2 + 11, 2 + 9, 2 + 57};
    for (int g = 0; g < 4; g++) {
        const struct tide_game *game = &games[g];
        struct tide_random random = {.seed = 5};
        assert_int_equal(tide_position_packed_bytes(game), bytes[g]);
        for (int n = 0; n < 30; n++) {
            struct tide_position position, back;
            for (tide_position_begin(game, &position);;) {
                uint8_t packed[128];
                struct tide_err err = {.text = ""};
                memset(packed, 0xaa, sizeof packed);
                memset(&back, 0x55, sizeof back);
                tide_position_pack(game, &position, packed);
                assert_int_equal(packed[bytes[g]], 0xaa);
                assert_int_equal(tide_position_unpack(game, packed, &back, &err), 0);
                assert_memory_equal(&position, &back, sizeof back);
                uint16_t moves[TIDE_BOARD_CELLS];
                int count = tide_position_moves(game, &position, moves);
                if (count == 0)
                    break;
                tide_position_play(game, &position, moves[tide_random_below(&random, (uint32_t)count)]);
            }
        }
    }
}

static void refused(const struct tide_game *game, const uint8_t *packed, const char *text)
{
    struct tide_position position = {.plies = 99};
    struct tide_err err = {.text = ""};
    assert_int_equal(tide_position_unpack(game, packed, &position, &err), -1);
    assert_string_equal(err.text, text);
    assert_int_equal(position.plies, 99);
}

static void bytes_that_no_game_leads_to_are_refused(void **state)
{
    (void)state;
    struct tide_game small = game_of("tictactoe", 0, false), drops = game_of("connect4", 0, false);
    refused(&small, (uint8_t[]){0, 0, 3, 0, 0}, "cell 0 of the position holds no stone of either side");
    refused(&small, (uint8_t[]){0, 0, 1, 0, 4}, "cell 9 of the position holds no stone of either side");
    refused(&small, (uint8_t[]){0, 0, 5, 0, 0}, "2 and 0 stones do not come from taking turns");
    refused(&small, (uint8_t[]){0, 0, 2, 0, 0}, "0 and 1 stones do not come from taking turns");
    refused(&small, (uint8_t[]){0, 0, 0, 0, 0}, "an empty board cannot have a last stone");
    refused(&small, (uint8_t[]){1, 0, 1, 0, 0}, "cell 1 does not hold the last stone of the position");
    refused(&small, (uint8_t[]){255, 255, 1, 0, 0}, "cell -1 does not hold the last stone of the position");
    refused(&small, (uint8_t[]){0, 1, 1, 0, 0}, "cell 256 does not hold the last stone of the position");
    /* x x x / o o . / o . .: the other moved last, after the line of the first. */
    refused(&small, (uint8_t[]){6, 0, 0x95, 0x22, 0}, "the position goes on after the end of the game");
    uint8_t floating[13] = {28, 0, [2 + 7] = 1};
    refused(&drops, floating, "the stone in cell 28 lies on nothing");
    /* The lower of two in a column is said to be the last. */
    struct tide_position p = played(&drops, "c c b");
    uint8_t packed[13];
    tide_position_pack(&drops, &p, packed);
    packed[0] = 37;
    refused(&drops, packed, "the last stone of the position has a stone on it");
}

/* Whatever is in the bytes, it is refused or is a position that packs to the same bytes. */
static void damaged_bytes_never_become_another_position(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct tide_random random = {.seed = 11};
    struct tide_position p = played(&game, "d d e c b c c a g"), back;
    int taken = 0;
    for (int n = 0; n < 20000; n++) {
        uint8_t packed[13], again[13];
        struct tide_err err = {.text = ""};
        tide_position_pack(&game, &p, packed);
        for (int flips = 1 + (int)tide_random_below(&random, 3); flips > 0; flips--)
            packed[tide_random_below(&random, 13)] ^= (uint8_t)(1 << tide_random_below(&random, 8));
        if (tide_position_unpack(&game, packed, &back, &err)) {
            assert_true(err.text[0]);
            continue;
        }
        tide_position_pack(&game, &back, again);
        assert_memory_equal(packed, again, sizeof packed);
        taken++;
    }
    assert_true(taken > 0 && taken < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_games_are_those_of_a_plain_implementation),
        cmocka_unit_test(positions_of_connect_four_are_as_many_as_known),
        cmocka_unit_test(games_of_tic_tac_toe_are_as_many_as_known),
        cmocka_unit_test(a_key_is_that_of_the_stones),
        cmocka_unit_test(six_in_a_row_win_unless_it_must_be_five),
        cmocka_unit_test(a_line_does_not_go_on_at_the_other_edge),
        cmocka_unit_test(games_that_cannot_be_are_refused_with_a_sentence),
        cmocka_unit_test(moves_have_names),
        cmocka_unit_test(symmetries_are_a_group),
        cmocka_unit_test(results_and_planes_turn_with_the_board),
        cmocka_unit_test(planes_show_stones_turn_and_lines_about_to_be),
        cmocka_unit_test(a_packed_position_comes_back),
        cmocka_unit_test(bytes_that_no_game_leads_to_are_refused),
        cmocka_unit_test(damaged_bytes_never_become_another_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
