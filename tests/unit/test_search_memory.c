/*
 * The memory of searches and caches: exactly the bytes that were said, a pool that is full, a subtree that is
 * kept, and trees that were saved, whole and damaged.
 */
#include "game/search_private.h"
#include "game_fixture.h"
#include "sanitized.h"

#include <math.h>

static const struct tide_search_rule usual = {1.8F, 0.2F, 0.3F, 0.25F, false};

static struct opinion opinion_of(const struct tide_game *game)
{
    return (struct opinion){.game = game, .seed = 3, .spread = 3, .certain = 0.7F, .fails_after = -1};
}

static void run(struct searching *s, struct opinion *opinion, struct tide_cache *cache, int most,
                int64_t simulations)
{
    struct tide_evaluator evaluator = opinion_evaluator(opinion, most);
    assert_int_equal(tide_search_run(s->search, &evaluator, cache, simulations, 0, s->workspace.memory), 0);
    guarded_check(&s->pool);
    guarded_check(&s->workspace);
}

/* ---- a full pool */

static void a_full_pool_is_searched_on_and_says_so(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    for (int64_t children = 8; children < 2000; children = children * 3 / 2 + 1)
        for (int most = 1; most <= 5; most += 4) {
            struct opinion opinion = opinion_of(&game);
            struct searching s = searching_of(&game, &usual, children, most);
            assert_int_equal(s.pool.bytes, tide_search_bytes(&game, children));
            run(&s, &opinion, NULL, most, 1500);
            struct tide_search_counts counts = tide_search_count(s.search);
            assert_int_equal(counts.visits, 1500);
            assert_true(counts.full > 0);
            assert_true(counts.children <= children && counts.children > children - 7);
            /* Each position is valued once: without room it counts again what it was worth. */
            assert_true(opinion.asked <= counts.children);
            assert_true(counts.high_water <= s.pool.bytes);
            uint32_t visits[7], sum = 0;
            tide_search_visits(s.search, visits);
            for (int move = 0; move < 7; move++)
                sum += visits[move];
            assert_int_equal(sum, 1499);
            /* There is room again after a move. */
            tide_search_advance(s.search, tide_search_choose(s.search, 0, NULL));
            guarded_check(&s.pool);
            uint32_t kept = tide_search_count(s.search).children;
            assert_true(kept < counts.children);
            run(&s, &opinion, NULL, most, 1500);
            assert_true(tide_search_count(s.search).children > kept);
            assert_int_equal(tide_search_count(s.search).high_water <= s.pool.bytes, 1);
            searching_free(&s);
        }
}

/* With room for the root's moves only, each of them stays worth what it was first given. */
static void without_room_a_position_keeps_its_value(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct opinion opinion = opinion_of(&game);
    struct searching s = searching_of(&game, &usual, 8, 1);
    run(&s, &opinion, NULL, 1, 1000);
    assert_int_equal(opinion.asked, 8);
    assert_int_equal(tide_search_count(s.search).full, 1000 - 8 + 7);
    for (int move = 0; move < 7; move++) {
        struct tide_position next = *tide_search_root(s.search);
        float logits[7], value = 0;
        tide_position_play(&game, &next, move);
        opinion_evaluate(&opinion, &next, 1, logits, &value);
        assert_true(fabsf(tide_search_move_value(s.search, move) + value) < 1e-4F);
    }
    searching_free(&s);
}

/* So many simulations never need more than is said, and a game of the widest kind needs all but a little. */
static void a_pool_of_the_size_for_its_simulations_is_never_full(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 15, false);
    int64_t children = tide_search_children(&game, 100);
    struct opinion opinion = opinion_of(&game);
    struct searching s = searching_of(&game, &usual, children, 8);
    run(&s, &opinion, NULL, 8, 100);
    struct tide_search_counts counts = tide_search_count(s.search);
    assert_int_equal(counts.full, 0);
    assert_true(counts.children > children * 97 / 100);
    assert_int_equal(counts.high_water, TIDE_SEARCH_HEADER + 24 * (uint64_t)(counts.children + 0));
    tide_search_advance(s.search, tide_search_choose(s.search, 0, NULL));
    assert_int_equal(tide_search_count(s.search).high_water,
                     TIDE_SEARCH_HEADER +
                         24 * ((uint64_t)counts.children + tide_search_count(s.search).children));
    searching_free(&s);
}

/* ---- a subtree that is kept */

struct tree {
    struct tide_child *at;
    uint32_t count;
};

static struct tree tree_of(const struct tide_search *search)
{
    struct tree tree = {NULL, tide_search_count(search).children};
    tree.at = malloc(tree.count * sizeof *tree.at);
    assert_non_null(tree.at);
    memcpy(tree.at, tide_search_tree(search), tree.count * sizeof *tree.at);
    return tree;
}

/* How many children there are from here on; all are the same in both trees, but for where they lie. */
static uint32_t same_from(const struct tree *a, uint32_t from, const struct tree *b, uint32_t other)
{
    struct tide_child x = a->at[from], y = b->at[other];
    uint32_t count = 1;
    x.first = y.first = 0;
    assert_memory_equal(&x, &y, sizeof x);
    for (uint32_t i = 0; i < a->at[from].count; i++)
        count += same_from(a, a->at[from].first + i, b, b->at[other].first + i);
    return count;
}

static void a_kept_subtree_is_what_it_was(void **state)
{
    (void)state;
    const struct tide_game games[] = {game_of("tictactoe", 0, false), game_of("connect4", 0, false),
                                      game_of("gomoku", 9, false)};
    for (int g = 0; g < 3; g++) {
        struct opinion opinion = opinion_of(&games[g]);
        struct searching s = searching_of(&games[g], &usual, tide_search_children(&games[g], 2000), 4);
        while (tide_search_root(s.search)->outcome == TIDE_PLAYING) {
            run(&s, &opinion, NULL, 4, 200);
            struct tree before = tree_of(s.search);
            int move = tide_search_choose(s.search, 0, NULL);
            tide_search_advance(s.search, move);
            struct tree after = tree_of(s.search);
            uint32_t at = before.at->first;
            while (before.at[at].move != move)
                at++;
            assert_int_equal(same_from(&before, at, &after, 0), after.count);
            free(before.at);
            free(after.at);
        }
        searching_free(&s);
    }
}

static void a_move_that_was_never_tried_begins_a_new_tree(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct opinion opinion = opinion_of(&game);
    struct searching s = searching_of(&game, &usual, 3000, 1);
    tide_search_advance(s.search, 3);
    assert_int_equal(tide_search_count(s.search).children, 1);
    assert_int_equal(tide_search_count(s.search).visits, 0);
    assert_false(tide_search_is_expanded(s.search));
    run(&s, &opinion, NULL, 1, 1);
    assert_true(tide_search_is_expanded(s.search));
    tide_search_advance(s.search, 3);
    assert_int_equal(tide_search_count(s.search).children, 1);
    assert_int_equal(tide_search_root(s.search)->plies, 2);
    searching_free(&s);
}

/* ---- the same bits */

/* A game with noise and temperature, as learning plays it. Returns its trees, folded up. */
static uint64_t fingerprint(const struct tide_game *game, struct searching *s, struct tide_cache *cache)
{
    struct opinion opinion = opinion_of(game);
    struct tide_random random = {.seed = 21};
    struct tide_position empty;
    uint64_t sum = 0;
    tide_position_begin(game, &empty);
    tide_search_begin(s->search, &empty);
    while (tide_search_root(s->search)->outcome == TIDE_PLAYING) {
        if (!tide_search_is_expanded(s->search))
            run(s, &opinion, cache, 1, 1);
        tide_search_noise(s->search, &random);
        run(s, &opinion, cache, 8, 60);
        struct tree tree = tree_of(s->search);
        for (uint32_t i = 0; i < tree.count; i++) {
            uint64_t child[TIDE_CHILD_BYTES / 8];
            memcpy(child, &tree.at[i], sizeof child);
            sum = tide_random_at(tide_random_at(sum, child[0], child[1]), child[2], i);
        }
        free(tree.at);
        tide_search_advance(s->search, tide_search_choose(s->search, 1, &random));
    }
    return sum;
}

static void a_search_is_a_function_of_its_calls(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 7, false);
    struct searching a = searching_of(&game, &usual, 40000, 8), b = searching_of(&game, &usual, 40000, 8);
    uint64_t first = fingerprint(&game, &a, NULL);
    fingerprint(&game, &b, NULL);
    assert_true(fingerprint(&game, &b, NULL) == first); /* in memory that was used */
    searching_free(&a);
    searching_free(&b);
}

/* Evaluations that are found are the same to the last bit as those that are asked for. With leaves out one at
 * a time, so is the tree. */
static void a_cache_changes_no_tree(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct searching with = searching_of(&game, &usual, 20000, 1),
                     without = searching_of(&game, &usual, 20000, 1);
    struct guarded memory = guarded_of(tide_cache_bytes(&game, 900));
    memset(memory.memory, 0, memory.bytes);
    struct tide_cache *cache = tide_cache_place(&game, memory.memory, memory.bytes);
    struct opinion a = opinion_of(&game), b = opinion_of(&game);
    for (int n = 0; n < 3; n++) {
        struct tide_position empty;
        tide_position_begin(&game, &empty);
        tide_search_begin(with.search, &empty);
        tide_search_begin(without.search, &empty);
        run(&with, &a, cache, 1, 600);
        run(&without, &b, NULL, 1, 600);
        struct tree x = tree_of(with.search), y = tree_of(without.search);
        assert_int_equal(x.count, y.count);
        assert_memory_equal(x.at, y.at, x.count * sizeof *x.at);
        free(x.at);
        free(y.at);
    }
    assert_true(a.asked < b.asked * 3 / 4);
    guarded_free(&memory);
    searching_free(&with);
    searching_free(&without);
}

/* ---- the cache */

static void a_cache_uses_its_bytes_and_no_more(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 9, false);
    size_t entry = (20 + 2 * 81 + 7) / 8 * 8;
    for (size_t bytes = 0; bytes < 64 + 20 * entry; bytes += 101) {
        struct guarded memory = guarded_of(bytes);
        memset(memory.memory, 0, bytes);
        struct tide_cache *cache = tide_cache_place(&game, memory.memory, bytes);
        if (bytes < 64 + 2 * entry) {
            assert_null(cache);
            guarded_free(&memory);
            continue;
        }
        int64_t entries = (int64_t)((bytes - 64) / entry / 2 * 2);
        assert_true(tide_cache_bytes(&game, entries) <= bytes &&
                    tide_cache_bytes(&game, entries + 1) > bytes);
        uint16_t priors[81];
        int64_t found = 0, kept = 0;
        for (uint64_t n = 0; n < 200; n++) {
            for (int i = 0; i < 81; i++)
                priors[i] = (uint16_t)(n * 81 + (uint64_t)i);
            tide_cache_put(cache, tide_random_at(1, n, 0), priors, (float)n);
        }
        for (uint64_t n = 0; n < 200; n++) {
            float value = -1;
            const uint16_t *got = tide_cache_find(cache, tide_random_at(1, n, 0), &value);
            if (!got)
                continue;
            assert_true(value == (float)n);
            for (int i = 0; i < 81; i++)
                assert_int_equal(got[i], (uint16_t)(n * 81 + (uint64_t)i));
            found++;
            kept += n >= 100;
        }
        assert_int_equal(found, entries); /* every byte of use */
        assert_true(kept * 10 >= found * 9);
        tide_cache_clear(cache);
        float value = 7;
        for (uint64_t n = 0; n < 200; n++)
            assert_null(tide_cache_find(cache, tide_random_at(1, n, 0), &value));
        assert_true(value == 7);
        guarded_free(&memory);
    }
}

static void a_key_that_is_put_again_has_its_last_value(void **state)
{
    (void)state;
    struct tide_game game = game_of("tictactoe", 0, false);
    struct guarded memory = guarded_of(tide_cache_bytes(&game, 2));
    memset(memory.memory, 0, memory.bytes);
    struct tide_cache *cache = tide_cache_place(&game, memory.memory, memory.bytes);
    uint16_t priors[9] = {0};
    float value = 0;
    for (uint64_t key = 0; key < 2; key++)
        for (int n = 0; n < 3; n++)
            tide_cache_put(cache, key, priors, (float)n + 10 * (float)key);
    assert_non_null(tide_cache_find(cache, 0, &value));
    assert_true(value == 2);
    assert_non_null(tide_cache_find(cache, 1, &value));
    assert_true(value == 12);
    tide_cache_put(cache, 0, priors, 5); /* now 1 is the older */
    tide_cache_put(cache, 9, priors, 6);
    assert_null(tide_cache_find(cache, 1, &value));
    assert_non_null(tide_cache_find(cache, 0, &value));
    assert_true(value == 5);
    guarded_free(&memory);
}

static void positions_that_a_net_sees_differently_have_other_keys(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 9, false);
    struct tide_position a = played(&game, "e5 d4 f6"), b = played(&game, "f6 d4 e5");
    assert_true(tide_position_key(&game, &a) == tide_position_key(&game, &b));
    assert_true(tide_cache_key(&game, &a) != tide_cache_key(&game, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pool_is_searched_on_and_says_so),
        cmocka_unit_test(without_room_a_position_keeps_its_value),
        cmocka_unit_test(a_pool_of_the_size_for_its_simulations_is_never_full),
        cmocka_unit_test(a_kept_subtree_is_what_it_was),
        cmocka_unit_test(a_move_that_was_never_tried_begins_a_new_tree),
        cmocka_unit_test(a_search_is_a_function_of_its_calls),
        cmocka_unit_test(a_cache_changes_no_tree),
        cmocka_unit_test(a_cache_uses_its_bytes_and_no_more),
        cmocka_unit_test(a_key_that_is_put_again_has_its_last_value),
        cmocka_unit_test(positions_that_a_net_sees_differently_have_other_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
