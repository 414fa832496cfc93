/*
 * test_selfgames.c - games at once and what they leave in the replay: the same bits with any number of
 * threads and across a stop, in exactly the memory that was said, with the values that games came to.
 */
#include "rt/cpu/threads.h"
#include "train/selfgames.h"
#include "../corpus/tictactoe_perfect.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POSITIONS = 400, GUARD = 64 };

static void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

/* ---- evaluators */

/* Numbers that are a function of the position: a net without a net. */
static int by_hash(void *context, const struct tide_position *positions, int count, float *logits,
                   float *values)
{
    const struct tide_game *game = context;
    for (int i = 0; i < count; i++) {
        uint64_t key = tide_position_key(game, &positions[i]);
        for (int k = 0; k < game->moves; k++)
            logits[i * game->moves + k] = (float)tide_random_unit(key, (uint64_t)k, 0);
        values[i] = (float)tide_random_unit(key, 999, 0) - 0.5F;
    }
    return 0;
}

static int by_nothing(void *context, const struct tide_position *positions, int count, float *logits,
                      float *values)
{
    const struct tide_game *game = context;
    (void)positions;
    memset(logits, 0, (size_t)count * (size_t)game->moves * sizeof *logits);
    memset(values, 0, (size_t)count * sizeof *values);
    return 0;
}

/* It likes the worst: the value of whoever is to move is turned. */
static int by_malice(void *context, const struct tide_position *positions, int count, float *logits,
                     float *values)
{
    const struct tide_game *game = context;
    for (int i = 0; i < count; i++) {
        uint64_t wins[TIDE_BOARD_WORDS];
        tide_position_completing(game, &positions[i], positions[i].plies & 1, wins);
        values[i] = 0;
        for (int k = 0; k < game->moves; k++) {
            bool completes = tide_cell_in(wins, k);
            logits[i * game->moves + k] = completes ? -20 : 0;
            values[i] = completes ? -1 : values[i];
        }
    }
    return 0;
}

struct perfect {
    unsigned best;
    int result;
    bool known;
};

/* What is perfect is found by playing every game: once for each position. */
static int by_truth(void *context, const struct tide_position *positions, int count, float *logits,
                    float *values)
{
    static struct perfect table[1 << 9][1 << 9];
    const struct tide_game *game = context;
    for (int i = 0; i < count; i++) {
        struct perfect *of = &table[positions[i].stones[0][0]][positions[i].stones[1][0]];
        if (!of->known)
            *of = (struct perfect){tictactoe_perfect_best(game, &positions[i]),
                                   tictactoe_perfect_result(game, &positions[i]), true};
        for (int k = 0; k < game->moves; k++)
            logits[i * game->moves + k] = of->best >> k & 1 ? 0 : -20;
        values[i] = (float)of->result;
    }
    return 0;
}

static int by_failure(void *context, const struct tide_position *positions, int count, float *logits,
                      float *values)
{
    (void)context;
    (void)positions;
    (void)count;
    (void)logits;
    (void)values;
    return -1;
}

/* ---- games in memory with guards behind each part */

struct table {
    struct tide_game game;
    struct tide_selfgames_rule rule;
    struct tide_selfgames_room room;
    char *parts[4], *ring;
    size_t bytes[4];
    struct tide_selfgames *games;
    struct tide_replay replay;
};

static void *guarded(size_t bytes)
{
    char *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + GUARD);
    assert_non_null(memory);
    memset(memory, 0, bytes);
    memset(memory + bytes, 0xa5, GUARD);
    return memory;
}

static void check_guard(const char *memory, size_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        assert_int_equal((unsigned char)memory[bytes + (size_t)i], 0xa5);
}

static void set_up(struct table *t, const char *name, int board, int64_t games, size_t cache)
{
    struct tide_err err = {0};
    memset(t, 0, sizeof *t);
    ok(tide_game_of(name, board, false, &t->game, &err), &err);
    t->rule = (struct tide_selfgames_rule){
        .search = {.exploration = 1.8F, .first_play = 0.2F, .noise_alpha = 0.5F, .noise_share = 0.25F},
        .games = games,
        .simulations = 24,
        .children = tide_search_children(&t->game, 24),
        .openings = 0.5,
        .sampled_plies = 6,
        .cache_bytes = cache,
        .seed = 7};
    t->room = tide_selfgames_room(&t->game, &t->rule);
    t->bytes[0] = t->room.trees;
    t->bytes[1] = t->room.records;
    t->bytes[2] = t->room.cache;
    t->bytes[3] = t->room.games;
    for (int i = 0; i < 4; i++)
        t->parts[i] = guarded(t->bytes[i]);
    t->ring = guarded(POSITIONS * tide_replay_record_bytes(&t->game));
    t->replay = tide_replay_over(&t->game, POSITIONS, t->ring);
    t->games = tide_selfgames_place(&t->game, &t->rule, &t->room, t->parts[0], t->parts[1], t->parts[2],
                                    t->parts[3]);
}

static void tear_down(struct table *t)
{
    for (int i = 0; i < 4; i++) {
        check_guard(t->parts[i], t->bytes[i]);
        free(t->parts[i]);
    }
    check_guard(t->ring, POSITIONS * t->replay.record);
    free(t->ring);
}

static struct tide_selfgames_counts play(struct table *t, int64_t until)
{
    struct tide_evaluator evaluator = {.most = 64, .evaluate = by_hash, .context = &t->game};
    struct tide_selfgames_counts counts;
    assert_int_equal(tide_selfgames_play(t->games, &evaluator, &t->replay, until, NULL, &counts), 0);
    return counts;
}

/* ---- tests */

static void test_any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int board;
        size_t cache;
    } cases[] = {{"tictactoe", 0, 0}, {"connect4", 0, 1 << 16}, {"gomoku", 7, 1 << 14}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table one, three;
        set_up(&one, cases[i].name, cases[i].board, 9, cases[i].cache);
        set_up(&three, cases[i].name, cases[i].board, 9, cases[i].cache);
        tide_threads_use(1);
        struct tide_selfgames_counts a = play(&one, 150);
        tide_threads_use(3);
        struct tide_selfgames_counts b = play(&three, 150);
        assert_memory_equal(&a, &b, sizeof a);
        assert_int_equal(one.replay.put, three.replay.put);
        assert_memory_equal(one.ring, three.ring, POSITIONS * one.replay.record);
        assert_true(a.games > 0 && a.full == 0 && a.evaluations <= a.simulations);
        tear_down(&one);
        tear_down(&three);
    }
}

static void test_the_cache_changes_nothing_but_the_work(void **state)
{
    (void)state;
    struct table with, without;
    set_up(&with, "connect4", 0, 4, 1 << 18);
    set_up(&without, "connect4", 0, 4, 0);
    struct tide_selfgames_counts a = play(&with, 200), b = play(&without, 200);
    assert_true(a.found > 0);
    assert_int_equal(b.asked, 0);
    assert_true(a.evaluations < b.evaluations);
    /* With one game at a time it would be the same games; with several, they end in another order. */
    assert_int_equal(a.full, 0);
    tear_down(&with);
    tear_down(&without);
    set_up(&with, "connect4", 0, 1, 1 << 18);
    set_up(&without, "connect4", 0, 1, 0);
    play(&with, 200);
    play(&without, 200);
    assert_memory_equal(with.ring, without.ring, POSITIONS * with.replay.record);
    tear_down(&with);
    tear_down(&without);
}

/* Values alternate from the end, where whoever moved last has won. */
static void test_values_are_of_the_side_to_move(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "tictactoe", 0, 2, 0);
    play(&t, 60);
    int games = 0, wins = 0;
    for (int64_t i = 0; i < t.replay.put; i++) {
        const uint8_t *record = (const uint8_t *)t.ring + (size_t)i * t.replay.record;
        struct tide_position p, next;
        struct tide_err err = {0};
        ok(tide_position_unpack(&t.game, record, &p, &err), &err);
        int16_t value, other;
        memcpy(&value, record + t.replay.record - 2, 2);
        bool last = i + 1 == t.replay.put;
        if (!last) {
            ok(tide_position_unpack(&t.game, record + t.replay.record, &next, &err), &err);
            last = next.plies <= p.plies;
        }
        if (!last) {
            memcpy(&other, record + 2 * t.replay.record - 2, 2);
            assert_int_equal(value, -other);
            continue;
        }
        games++;
        uint64_t cells[TIDE_BOARD_WORDS];
        tide_position_completing(&t.game, &p, p.plies & 1, cells);
        wins += value == 32767;
        assert_true(value == 32767 ? cells[0] != 0 : value == 0);
    }
    assert_true(games > 3 && wins > 0);
    tear_down(&t);
}

/* Half of the games begin with one or two stones, of which there is nothing to learn. */
static void test_stones_by_chance_are_not_learned_from(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "tictactoe", 0, 6, 0);
    play(&t, POSITIONS - 60);
    assert_true(t.replay.put <= POSITIONS);
    int from_nothing = 0, from_opening = 0, before = TIDE_BOARD_CELLS;
    for (int64_t i = 0; i < t.replay.put; i++) {
        struct tide_position p;
        struct tide_err err = {0};
        ok(tide_position_unpack(&t.game, (const uint8_t *)t.ring + (size_t)i * t.replay.record, &p, &err),
           &err);
        if (p.plies <= before) {
            from_nothing += p.plies == 0;
            from_opening += p.plies > 0;
            assert_true(p.plies <= 2);
        } else {
            assert_int_equal(p.plies, before + 1);
        }
        before = p.plies;
    }
    assert_true(from_nothing > 10 && from_opening > 10);
    tear_down(&t);
}

static void test_it_goes_on_to_the_bit(void **state)
{
    (void)state;
    char path[] = "/tmp/selfgames-XXXXXX";
    int folder = open("/tmp", O_RDONLY | O_DIRECTORY);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    struct table whole, first, second;
    set_up(&whole, "gomoku", 6, 5, 1 << 14);
    play(&whole, 120);
    play(&whole, 240);
    set_up(&first, "gomoku", 6, 5, 1 << 14);
    play(&first, 120);
    struct tide_durable file;
    assert_int_equal(tide_durable_open(&file, folder, path + strlen("/tmp/")), 0);
    tide_replay_write(&first.replay, &file);
    tide_selfgames_write(first.games, &file);
    assert_int_equal(tide_durable_close(&file), 0);
    set_up(&second, "gomoku", 6, 5, 1 << 14);
    struct tide_err err = {0};
    FILE *in = fopen(path, "r");
    ok(tide_replay_read(&second.replay, in, &err), &err);
    ok(tide_selfgames_read(second.games, in, &err), &err);
    assert_int_equal(fgetc(in), EOF);
    fclose(in);
    play(&second, 240);
    assert_int_equal(whole.replay.put, second.replay.put);
    assert_memory_equal(whole.ring, second.ring, POSITIONS * whole.replay.record);
    tear_down(&whole);
    tear_down(&first);
    tear_down(&second);
    unlink(path);
    close(folder);
}

/* Whatever is in the file: refused or read, and nothing beyond the memory is touched. */
static void test_a_damaged_file_is_refused_or_harmless(void **state)
{
    (void)state;
    struct table t, to;
    set_up(&t, "connect4", 0, 3, 0);
    play(&t, 60);
    char *bytes = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&bytes, &count);
    struct tide_durable file;
    char path[] = "/tmp/selfgames-XXXXXX";
    int fd = mkstemp(path), folder = open("/tmp", O_RDONLY | O_DIRECTORY), refused = 0;
    close(fd);
    unlink(path);
    assert_int_equal(tide_durable_open(&file, folder, path + strlen("/tmp/")), 0);
    tide_replay_write(&t.replay, &file);
    tide_selfgames_write(t.games, &file);
    assert_int_equal(tide_durable_close(&file), 0);
    FILE *in = fopen(path, "r");
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    fclose(out);
    for (int i = 0; i < 400; i++) {
        struct tide_random random = {.seed = (uint64_t)i};
        size_t at = tide_random_below(&random, (uint32_t)count);
        char before = bytes[at];
        bytes[at] = (char)tide_random_next(&random);
        set_up(&to, "connect4", 0, 3, 0);
        in = fmemopen(bytes, i % 4 ? count : at + 1, "r");
        struct tide_err err = {0};
        int bad = tide_replay_read(&to.replay, in, &err) || tide_selfgames_read(to.games, in, &err);
        refused += bad;
        assert_true(!bad || err.text[0]);
        if (!bad)
            play(&to, to.replay.put < POSITIONS ? to.replay.put + 20 : 0);
        fclose(in);
        tear_down(&to);
        bytes[at] = before;
    }
    assert_true(refused > 100);
    tear_down(&t);
    free(bytes);
    unlink(path);
    close(folder);
}

static void test_symmetries_turn_positions_and_policies_together(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "gomoku", 6, 2, 0);
    struct tide_position p;
    uint32_t visits[TIDE_BOARD_CELLS] = {0};
    uint8_t record[4096];
    tide_position_begin(&t.game, &p);
    tide_position_play(&t.game, &p, 1);
    tide_position_play(&t.game, &p, 8);
    visits[2] = 30;
    visits[9] = 10;
    tide_replay_pack(&t.game, &p, visits, record);
    tide_replay_settle(&t.game, record, -1);
    tide_replay_put(&t.replay, record);
    bool seen[TIDE_SYMMETRIES] = {0}, began[2] = {0};
    for (uint64_t draw = 0; draw < 200; draw++) {
        float planes[36 * TIDE_PLANES], policy[36], value;
        tide_replay_draw(&t.replay, 3, draw, 0, planes, policy, &value);
        assert_float_equal(value, -1, 1e-6);
        int which = -1;
        for (int s = 0; s < t.game.symmetries; s++)
            if (policy[tide_game_symmetric(&t.game, s, 2)] > 0.74F &&
                policy[tide_game_symmetric(&t.game, s, 9)] > 0.24F)
                which = s;
        assert_true(which >= 0);
        seen[which] = true;
        began[planes[3] > 0] = true;
        for (int cell = 1; cell < 36; cell++)
            assert_float_equal(planes[cell * TIDE_PLANES + 3], planes[3], 0);
        assert_float_equal(planes[tide_game_symmetric(&t.game, which, 1) * TIDE_PLANES], 1, 0);
        assert_float_equal(planes[tide_game_symmetric(&t.game, which, 8) * TIDE_PLANES + 1], 1, 0);
    }
    for (int s = 0; s < t.game.symmetries; s++)
        assert_true(seen[s]);
    assert_true(began[0] && began[1]); /* either side might have begun */
    tear_down(&t);
}

static void test_the_newest_takes_the_place_of_the_oldest(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "tictactoe", 0, 4, 0);
    play(&t, 3 * POSITIONS);
    assert_true(t.replay.put >= 3 * POSITIONS);
    assert_int_equal(tide_replay_count(&t.replay), POSITIONS);
    tear_down(&t);
}

static void test_a_match_knows_who_is_better(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "tictactoe", 0, 8, 1 << 14);
    struct tide_evaluator plain = {.most = 64, .evaluate = by_nothing, .context = &t.game},
                          malice = {.most = 64, .evaluate = by_malice, .context = &t.game};
    const struct tide_evaluator *const forth[2] = {&plain, &malice}, *const back[2] = {&malice, &plain},
                                       *const same[2] = {&plain, &plain};
    struct tide_selfgames_score a, b, again;
    assert_int_equal(tide_selfgames_match(t.games, forth, 40, 5, NULL, &a), 0);
    assert_int_equal(tide_selfgames_match(t.games, back, 40, 5, NULL, &b), 0);
    assert_int_equal(a.wins + a.draws + a.losses, 80);
    assert_true(a.wins > 2 * a.losses + 5);
    assert_true(b.losses > 2 * b.wins + 5);
    assert_int_equal(tide_selfgames_match(t.games, forth, 40, 5, NULL, &again), 0);
    assert_memory_equal(&a, &again, sizeof a);
    /* Both the same: each opening is played by both sides, so that nobody is ahead. */
    assert_int_equal(tide_selfgames_match(t.games, same, 40, 6, NULL, &a), 0);
    assert_int_equal(a.wins, a.losses);
    tear_down(&t);
}

/* Of two stones of tic-tac-toe by chance a good part is lost for one side, whoever plays on. */
static void test_a_match_begins_where_neither_side_has_won(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "tictactoe", 0, 8, 0);
    struct tide_evaluator truth = {.most = 4, .evaluate = by_truth, .context = &t.game};
    const struct tide_evaluator *const both[2] = {&truth, &truth};
    struct tide_selfgames_score score;
    assert_int_equal(tide_selfgames_match(t.games, both, 30, 5, NULL, &score), 0);
    assert_int_equal(score.draws, 60);
    tear_down(&t);
}

static bool at_once(void)
{
    return true;
}

/* Every game makes the move it thinks about, and all goes on from there. */
static void test_whoever_hurries_gets_games_that_stand_after_a_move(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "gomoku", 7, 5, 0);
    struct tide_evaluator evaluator = {.most = 64, .evaluate = by_hash, .context = &t.game};
    const struct tide_evaluator *const both[2] = {&evaluator, &evaluator};
    struct tide_selfgames_counts counts;
    struct tide_selfgames_score score;
    play(&t, 30);
    assert_int_equal(tide_selfgames_play(t.games, &evaluator, &t.replay, 300, at_once, &counts), 0);
    assert_true(counts.moves > 0 && counts.moves <= 5 && t.replay.put < 300);
    assert_int_equal(tide_selfgames_match(t.games, both, 4, 1, at_once, &score), 1);
    counts = play(&t, 300);
    assert_true(t.replay.put >= 300 && counts.games > 0);
    tear_down(&t);
}

static void test_an_evaluator_that_fails_is_told(void **state)
{
    (void)state;
    struct table t;
    set_up(&t, "tictactoe", 0, 4, 0);
    struct tide_evaluator bad = {.most = 64, .evaluate = by_failure};
    struct tide_selfgames_counts counts;
    assert_int_equal(tide_selfgames_play(t.games, &bad, &t.replay, 10, NULL, &counts), -1);
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(test_the_cache_changes_nothing_but_the_work),
        cmocka_unit_test(test_values_are_of_the_side_to_move),
        cmocka_unit_test(test_stones_by_chance_are_not_learned_from),
        cmocka_unit_test(test_it_goes_on_to_the_bit),
        cmocka_unit_test(test_a_damaged_file_is_refused_or_harmless),
        cmocka_unit_test(test_symmetries_turn_positions_and_policies_together),
        cmocka_unit_test(test_the_newest_takes_the_place_of_the_oldest),
        cmocka_unit_test(test_a_match_knows_who_is_better),
        cmocka_unit_test(test_a_match_begins_where_neither_side_has_won),
        cmocka_unit_test(test_whoever_hurries_gets_games_that_stand_after_a_move),
        cmocka_unit_test(test_an_evaluator_that_fails_is_told),
    };
    tide_threads_set(3);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
