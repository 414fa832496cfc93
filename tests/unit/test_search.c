/*
 * The search: visits are those of a plain one (a tree of pointers in f64 that looks at every child), values
 * have the right sign, and what must be seen in a few moves is seen.
 */
#include "game/random_rollouts.h"
#include "game/search_private.h"
#include "game_fixture.h"
#include "gomoku_tactics.h"
#include "sanitized.h"

#include <math.h>

/* Gives the evaluation of a leaf. */
static void give(struct tide_search *search, const struct tide_leaf *leaf, const float *logits, float value)
{
    uint16_t priors[TIDE_BOARD_CELLS];
    tide_search_priors(&search->game, &leaf->position, logits, priors);
    tide_search_give_priors(search, leaf, priors, value);
}

/* The mean value of the root. */
static float value_of(const struct tide_search *search)
{
    const struct tide_child *root = tide_search_tree(search);
    return -root->sum / (float)root->visits;
}

static const struct tide_search_rule usual = {1.8F, 0.2F, 0.3F, 0.25F, false};

/* ---- the plain search */

struct node {
    struct node *parent, **children; /* by move; NULL: not possible */
    int move, count;
    bool expanded;
    double prior, sum, visits, out; /* sum: for the side that moves here */
    int64_t order;                  /* in which it was tried; 0: it was not */
    struct tide_position position;
};

struct plain {
    struct tide_game game;
    struct tide_search_rule rule;
    struct node *root;
    int64_t tried;
};

static struct node *node_new(struct node *parent, int move, double prior,
                             const struct tide_position *position)
{
    struct node *node = calloc(1, sizeof *node);
    assert_non_null(node);
    *node = (struct node){.parent = parent, .move = move, .prior = prior, .position = *position};
    return node;
}

static void node_free(struct node *node, const struct node *but, int moves)
{
    for (int move = 0; node->children && move < moves; move++)
        if (node->children[move] && node->children[move] != but)
            node_free(node->children[move], but, moves);
    free(node->children);
    free(node);
}

static double node_score(const struct plain *plain, const struct node *parent, const struct node *child)
{
    double tried = 0, scale = (double)plain->rule.exploration * sqrt(parent->visits + parent->out);
    for (int move = 0; move < plain->game.moves; move++)
        if (parent->children[move] && parent->children[move]->order)
            tried += parent->children[move]->prior;
    if (!child->order)
        return parent->sum / parent->visits - (double)plain->rule.first_play * sqrt(tried) +
               scale * child->prior;
    /* The child's sum is the opponent's. */
    return (-child->sum - child->out) / (child->visits + child->out) +
           scale * child->prior / (1 + child->visits + child->out);
}

/* Of equals the one that was tried first; of those that were not, the likelier, then the lower. */
static bool node_before(const struct node *a, const struct node *b)
{
    if (a->order && b->order)
        return a->order < b->order;
    if (a->order || b->order)
        return a->order != 0;
    return a->prior > b->prior || (a->prior >= b->prior && a->move < b->move);
}

static struct node *plain_descend(struct plain *plain)
{
    struct node *node = plain->root;
    while (node->expanded) {
        struct node *best = NULL;
        double most = 0;
        for (int move = 0; move < plain->game.moves; move++) {
            struct node *child = node->children[move];
            if (!child)
                continue;
            double score = node_score(plain, node, child);
            if (!best || score > most || (score >= most && node_before(child, best))) {
                best = child;
                most = score;
            }
        }
        node = best;
        if (!node->order)
            node->order = ++plain->tried;
    }
    return node;
}

/* value: for the side to move in the node. */
static void plain_back_up(struct node *node, double value)
{
    for (; node; node = node->parent, value = -value) {
        node->sum += value;
        node->visits++;
    }
}

static void plain_expand(struct plain *plain, struct node *node, const float *logits)
{
    uint16_t priors[TIDE_BOARD_CELLS];
    tide_search_priors(&plain->game, &node->position, logits, priors);
    node->children = calloc((size_t)plain->game.moves, sizeof(struct node *));
    node->expanded = true;
    for (int move = 0; move < plain->game.moves; move++) {
        if (!tide_position_may(&plain->game, &node->position, move))
            continue;
        struct tide_position next = node->position;
        tide_position_play(&plain->game, &next, move);
        node->children[move] = node_new(node, move, (double)tide_prior_number(priors[move]), &next);
    }
}

static void plain_run(struct plain *plain, struct opinion *opinion, int most, int64_t simulations)
{
    static float logits[TIDE_BOARD_CELLS];
    struct node *out[64];
    for (int64_t done = 0; done < simulations;) {
        int count = 0;
        while (count < most && done + count < simulations) {
            struct node *node = plain_descend(plain);
            if (node->position.outcome != TIDE_PLAYING) {
                plain_back_up(node, node->position.outcome == TIDE_WON ? -1 : 0);
                if (++done >= most && count == 0)
                    break;
                continue;
            }
            if (node->out > 0)
                break;
            for (struct node *up = node; up; up = up->parent)
                up->out++;
            out[count++] = node;
        }
        for (int i = 0; i < count; i++) {
            float value = 0;
            opinion_evaluate(opinion, &out[i]->position, 1, logits, &value);
            for (struct node *up = out[i]; up; up = up->parent)
                up->out--;
            plain_expand(plain, out[i], logits);
            plain_back_up(out[i], (double)value);
        }
        done += count;
    }
}

static void plain_advance(struct plain *plain, int move)
{
    struct node *kept = plain->root->children[move];
    node_free(plain->root, kept, plain->game.moves);
    kept->parent = NULL;
    plain->root = kept;
}

static void same_found(const struct tide_search *search, const struct plain *plain)
{
    uint32_t visits[TIDE_BOARD_CELLS];
    tide_search_visits(search, visits);
    for (int move = 0; move < plain->game.moves; move++) {
        const struct node *child = plain->root->children[move];
        assert_int_equal(visits[move], child ? (int)child->visits : 0);
        if (child && child->visits > 0)
            assert_true(fabs((double)tide_search_move_value(search, move) + child->sum / child->visits) <
                        1e-4);
    }
    assert_int_equal(tide_search_count(search).visits, (int)plain->root->visits);
    assert_true(fabs((double)value_of(search) - plain->root->sum / plain->root->visits) < 1e-4);
}

/* A game by both, each with what it kept. */
static void play_with_both(const struct tide_game *game, struct opinion opinion, int most,
                           int64_t simulations)
{
    struct opinion again = opinion;
    struct searching s = searching_of(game, &usual, tide_search_children(game, 20 * simulations), most);
    struct plain plain = {.game = *game, .rule = usual};
    struct tide_evaluator evaluator = opinion_evaluator(&opinion, most);
    struct tide_position position;
    tide_position_begin(game, &position);
    plain.root = node_new(NULL, -1, 1, &position);
    while (position.outcome == TIDE_PLAYING) {
        assert_int_equal(tide_search_run(s.search, &evaluator, NULL, simulations, 0, s.workspace.memory), 0);
        plain_run(&plain, &again, most, simulations);
        same_found(s.search, &plain);
        int move = tide_search_choose(s.search, 0, NULL);
        tide_position_play(game, &position, move);
        tide_search_advance(s.search, move);
        plain_advance(&plain, move);
        assert_memory_equal(tide_search_root(s.search), &position, sizeof position);
    }
    assert_int_equal(tide_search_count(s.search).full, 0);
    assert_int_equal(opinion.asked, again.asked);
    node_free(plain.root, NULL, game->moves);
    searching_free(&s);
}

static void visits_are_those_of_a_plain_search(void **state)
{
    (void)state;
    const struct tide_game games[] = {game_of("tictactoe", 0, false), game_of("connect4", 0, false),
                                      game_of("gomoku", 5, false), game_of("gomoku", 7, true)};
    const int64_t simulations[] = {300, 300, 150, 100};
    for (int g = 0; g < 4; g++)
        for (int most = 1; most <= 8; most += 7)
            for (uint64_t seed = 0; seed < (is_slow() ? 1 : 3); seed++) {
                struct opinion opinion = {.game = &games[g], .seed = seed, .fails_after = -1};
                opinion.spread = 2.0F * (float)seed;
                opinion.certain = 0.3F * (float)(1 + seed);
                play_with_both(&games[g], opinion, most, is_slow() ? simulations[g] / 5 : simulations[g]);
            }
}

/* ---- signs */

/* Where two cells are empty, everything can be told by hand. x has a1 b1 c2 a3, o has a2 b2 b3 and is to
 * move, at c1 or c3; x takes the other one. At c1 x would win, so that o must take it, and the game is drawn.
 */
static void values_have_the_sign_of_who_is_to_move(void **state)
{
    (void)state;
    struct tide_game game = game_of("tictactoe", 0, false);
    struct tide_search_rule rule = {.exploration = 1.8F};
    struct searching s = searching_of(&game, &rule, 100, 1);
    struct tide_position position = played(&game, "a1 a2 b1 b2 c2 b3 a3");
    struct tide_leaf leaf;
    const float alike[9] = {0};
    int c1 = move_of(&game, "c1"), c3 = move_of(&game, "c3");
    tide_search_begin(s.search, &position);
    /* The root: o, to move, is told that it is worth 0.5. */
    assert_int_equal(tide_search_descend(s.search, &leaf), TIDE_NEEDS_EVALUATION);
    give(s.search, &leaf, alike, 0.5F);
    assert_true(value_of(s.search) == 0.5F);
    /* c3 is the lower number: then x, to move, is told that it is worth 0.25: for o that is -0.25. */
    assert_int_equal(tide_search_descend(s.search, &leaf), TIDE_NEEDS_EVALUATION);
    assert_int_equal(leaf.position.last, c3);
    give(s.search, &leaf, alike, 0.25F);
    assert_true(tide_search_move_value(s.search, c3) == -0.25F);
    assert_true(value_of(s.search) == (0.5F - 0.25F) / 2);
    /* c1, after which x is told -0.125: good for o. */
    assert_int_equal(tide_search_descend(s.search, &leaf), TIDE_NEEDS_EVALUATION);
    assert_int_equal(leaf.position.last, c1);
    give(s.search, &leaf, alike, -0.125F);
    assert_true(tide_search_move_value(s.search, c1) == 0.125F);
    assert_true(value_of(s.search) == (0.5F - 0.25F + 0.125F) / 3);
    /* From now on games end: c1 c3 draws, c3 c1 wins for x. */
    for (int i = 0; i < 400; i++)
        assert_int_equal(tide_search_descend(s.search, &leaf), TIDE_BACKED_UP);
    uint32_t visits[9];
    tide_search_visits(s.search, visits);
    assert_true(visits[c1] > 20 * visits[c3] && visits[c3] > 1);
    assert_true(tide_search_move_value(s.search, c3) < -0.8F);
    assert_true(fabsf(tide_search_move_value(s.search, c1)) < 0.01F);
    assert_true(value_of(s.search) > -0.1F && value_of(s.search) < 0.01F);
    assert_int_equal(tide_search_choose(s.search, 0, NULL), c1);
    searching_free(&s);
}

/* ---- what must be seen */

static void the_move_that_matters_is_found(void **state)
{
    (void)state;
    const struct {
        const char *game;
        int board, simulations;
        const char *moves, *best;
    } all[] = {
        {"tictactoe", 0, 200, "a1 a3 b1 b3", "c1"},              /* wins */
        {"tictactoe", 0, 400, "a1 b2 b1", "c1"},                 /* else the other wins */
        {"connect4", 0, 400, "d a d b d g", "d"},                /* wins */
        {"connect4", 0, 1000, "d a d b d", "d"},                 /* else the other wins */
        {"connect4", 0, 2000, "d d e e", "c"},                   /* three in a row, open at both ends */
        {"gomoku", 7, 1000, "a1 c3 a2 c4 a4 e5 a5 f7", "a3"},    /* wins */
        {"gomoku", 7, 4000, "d4 a1 d5 a2 d3 a4 g7 a5 g1", "a3"}, /* wins, rather than to block nothing */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tide_game game = game_of(all[i].game, all[i].board, false);
        int simulations = all[i].simulations;
        struct searching s = searching_of(&game, &usual, tide_search_children(&game, simulations), 1);
        struct opinion nothing = {.game = &game, .fails_after = -1};
        struct tide_evaluator evaluator = opinion_evaluator(&nothing, 1);
        struct tide_position position = played(&game, all[i].moves);
        char name[TIDE_MOVE_NAME];
        tide_search_begin(s.search, &position);
        assert_int_equal(tide_search_run(s.search, &evaluator, NULL, simulations, 0, s.workspace.memory), 0);
        assert_string_equal(tide_move_name(&game, tide_search_choose(s.search, 0, NULL), name), all[i].best);
        searching_free(&s);
    }
}

/* How many of so many tactics a search answers wrong, whose evaluator knows nothing and thinks it knows a
 * lot. */
static int missed(const struct tide_game *game, bool forced, int tactics, int64_t simulations)
{
    struct tide_search_rule rule = usual;
    rule.forced = forced;
    struct opinion opinion = {.game = game, .seed = 1, .spread = 8, .certain = 0.9F, .fails_after = -1};
    struct tide_evaluator evaluator = opinion_evaluator(&opinion, 8);
    struct searching s = searching_of(game, &rule, tide_search_children(game, simulations), 8);
    int count = 0;
    for (uint64_t number = 0; number < (uint64_t)tactics; number++) {
        struct gomoku_tactic tactic = gomoku_tactic_make(game, 4, number);
        tide_search_begin(s.search, &tactic.position);
        assert_int_equal(tide_search_run(s.search, &evaluator, NULL, simulations, 0, s.workspace.memory), 0);
        count += !tide_cell_in(tactic.right, tide_search_choose(s.search, 0, NULL));
    }
    searching_free(&s);
    return count;
}

static void forced_moves_are_never_missed(void **state)
{
    (void)state;
    const struct tide_game games[] = {game_of("gomoku", 9, false), game_of("gomoku", 15, true)};
    for (int g = 0; g < 2; g++) {
        int tactics = is_slow() ? 10 : is_long() ? 1000 : 100;
        assert_int_equal(missed(&games[g], true, tactics, 100), 0);
        assert_true(missed(&games[g], false, 10, 100) > 0);
    }
}

static void what_is_not_forced_keeps_its_priors(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    uint16_t before[7], priors[7];
    for (int move = 0; move < 7; move++)
        before[move] = tide_prior_code(move == 0 ? 0 : 1 / 6.0F);
    const struct {
        const char *moves;
        unsigned forced; /* columns, as bits; 0 none */
    } all[] = {
        {"d d e e", 0},           {"d a d b d g", 1U << 3},         {"d a d b d", 1U << 3},
        {"c d d c e", 0},         {"c a d a e", 1U << 1 | 1U << 5}, {"b g c g d", 1U << 0 | 1U << 4},
        {"a b a b a g", 1U << 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tide_position position = played(&game, all[i].moves);
        memcpy(priors, before, sizeof priors);
        tide_priors_force(&game, &position, priors);
        float sum = 0;
        for (int move = 0; move < 7; move++) {
            sum += tide_prior_number(priors[move]);
            if (all[i].forced == 0)
                assert_int_equal(priors[move], before[move]);
            else if (!(all[i].forced >> move & 1))
                assert_int_equal(priors[move], 0);
        }
        assert_true(fabsf(sum - 1) < 0.001F);
    }
}

/* ---- leaves that are out */

static void leaves_that_are_out_are_not_given_out_again(void **state)
{
    (void)state;
    struct tide_game game = game_of("tictactoe", 0, false);
    struct searching s = searching_of(&game, &usual, 2000, 1);
    struct tide_leaf root, leaves[16], none;
    float alike[9] = {0};
    assert_int_equal(tide_search_descend(s.search, &root), TIDE_NEEDS_EVALUATION);
    assert_int_equal(tide_search_descend(s.search, &none), TIDE_BUSY);
    assert_int_equal(tide_search_count(s.search).out, 1);
    give(s.search, &root, alike, 0);
    int count = 0;
    while (tide_search_descend(s.search, &leaves[count]) == TIDE_NEEDS_EVALUATION)
        count++;
    assert_int_equal(count, 9); /* each counts as lost, so that the next one goes elsewhere */
    assert_int_equal(tide_search_count(s.search).out, 9);
    assert_int_equal(tide_search_count(s.search).visits, 1);
    tide_search_drop(s.search, &leaves[4]);
    assert_int_equal(tide_search_descend(s.search, &none),
                     TIDE_NEEDS_EVALUATION); /* the one that was dropped */
    assert_int_equal(none.position.last, leaves[4].position.last);
    leaves[4] = none;
    for (int i = 0; i < count; i++)
        give(s.search, &leaves[i], alike, 0);
    assert_int_equal(tide_search_count(s.search).out, 0);
    assert_int_equal(tide_search_count(s.search).visits, 10);
    assert_true(value_of(s.search) == 0); /* nothing is left of the losses */
    searching_free(&s);
}

static void a_failing_evaluator_leaves_the_search_as_it_was(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    struct opinion opinion = {.game = &game, .certain = 0.5F, .spread = 1, .fails_after = 5};
    struct tide_evaluator evaluator = opinion_evaluator(&opinion, 8);
    struct searching s = searching_of(&game, &usual, tide_search_children(&game, 500), 8);
    assert_int_equal(tide_search_run(s.search, &evaluator, NULL, 200, 0, s.workspace.memory), -1);
    assert_int_equal(tide_search_count(s.search).out, 0);
    uint32_t before = tide_search_count(s.search).visits;
    assert_int_equal(before, opinion.asked);
    opinion.fails_after = -1;
    assert_int_equal(tide_search_run(s.search, &evaluator, NULL, 200, 0, s.workspace.memory), 0);
    assert_int_equal(tide_search_count(s.search).visits, before + 200);
    searching_free(&s);
}

static int nonsense(void *context, const struct tide_position *positions, int count, float *logits,
                    float *values)
{
    (void)positions;
    const float odd[] = {NAN, INFINITY, -INFINITY, 1e30F, 0, -NAN, 7};
    for (int i = 0; i < count; i++, ++*(int *)context) {
        for (int move = 0; move < 7; move++)
            logits[i * 7 + move] = odd[(move + *(int *)context) % 7];
        values[i] = odd[*(int *)context % 7];
    }
    return 0;
}

static void a_net_that_has_gone_mad_does_no_harm(void **state)
{
    (void)state;
    struct tide_game game = game_of("connect4", 0, false);
    int calls = 0;
    struct tide_evaluator evaluator = {.most = 4, .evaluate = nonsense, .context = &calls};
    struct searching s = searching_of(&game, &usual, tide_search_children(&game, 500), 4);
    assert_int_equal(tide_search_run(s.search, &evaluator, NULL, 500, 0, s.workspace.memory), 0);
    assert_true(fabsf(value_of(s.search)) <= 1);
    uint32_t visits[7], sum = 0;
    tide_search_visits(s.search, visits);
    for (int move = 0; move < 7; move++)
        sum += visits[move];
    assert_int_equal(sum, 499);
    searching_free(&s);
}

static void a_search_ends_at_its_deadline_and_at_the_end_of_the_game(void **state)
{
    (void)state;
    struct tide_game game = game_of("tictactoe", 0, false);
    struct opinion nothing = {.game = &game, .fails_after = -1};
    struct tide_evaluator evaluator = opinion_evaluator(&nothing, 1);
    struct searching s = searching_of(&game, &usual, 2000, 1);
    assert_int_equal(tide_search_run(s.search, &evaluator, NULL, INT64_MAX, 1, s.workspace.memory), 0);
    assert_int_equal(tide_search_count(s.search).visits, 1);
    struct tide_position won = played(&game, "a1 a2 b1 b2 c1");
    tide_search_begin(s.search, &won);
    assert_int_equal(tide_search_run(s.search, &evaluator, NULL, INT64_MAX, 0, s.workspace.memory), 0);
    assert_int_equal(tide_search_choose(s.search, 0, NULL), -1);
    searching_free(&s);
}

/* ---- draws */

static void priors_are_a_softmax_over_what_is_possible(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 9, false);
    struct tide_position position = played(&game, "e5 d4 a1 i9");
    struct tide_random random = {.seed = 4};
    for (int n = 0; n < 100; n++) {
        float logits[81], spread = (float)n * 0.2F;
        uint16_t priors[81];
        double sum = 0;
        for (int move = 0; move < 81; move++)
            logits[move] = spread * (float)(tide_random_next_unit(&random) - 0.5);
        for (int move = 0; move < 81; move++)
            sum += tide_position_may(&game, &position, move) ? exp((double)logits[move]) : 0;
        tide_search_priors(&game, &position, logits, priors);
        for (int move = 0; move < 81; move++) {
            double expected = exp((double)logits[move]) / sum;
            if (!tide_position_may(&game, &position, move))
                assert_int_equal(priors[move], 0);
            else if (expected > 1e-9)
                assert_true(fabs((double)tide_prior_number(priors[move]) / expected - 1) < 0.0003);
        }
    }
    assert_true(tide_prior_number(tide_prior_code(1)) == 1);
    assert_true(tide_prior_number(tide_prior_code(0)) == 0);
}

/* Noise alone: the mean of each move and its variance are those of the Dirichlet distribution. */
static void noise_is_dirichlets(void **state)
{
    (void)state;
    const float alphas[] = {0.05F, 0.3F, 1.5F};
    struct tide_game game = game_of("connect4", 0, false);
    for (int a = 0; a < 3; a++) {
        struct tide_search_rule rule = {.exploration = 1.8F, .noise_alpha = alphas[a], .noise_share = 1};
        struct searching s = searching_of(&game, &rule, 100, 1);
        struct tide_random random = {.seed = 9};
        double sums[7] = {0}, squares = 0;
        int times = is_slow() ? 500 : 5000;
        for (int n = 0; n < times; n++) {
            struct tide_position empty;
            struct tide_leaf leaf;
            tide_position_begin(&game, &empty);
            tide_search_begin(s.search, &empty);
            tide_search_descend(s.search, &leaf);
            give(s.search, &leaf, (float[7]){0}, 0);
            tide_search_noise(s.search, &random);
            double sum = 0;
            for (int i = 1; i <= 7; i++) {
                const struct tide_child *child = tide_search_tree(s.search) + i;
                double prior = (double)tide_prior_number(child->prior);
                sums[child->move] += prior;
                squares += prior * prior;
                sum += prior;
            }
            assert_true(fabs(sum - 1) < 0.001);
        }
        double variance = 1.0 / 7 * 6 / 7 / (7 * (double)alphas[a] + 1), sigma = sqrt(variance / times);
        for (int move = 0; move < 7; move++)
            assert_true(fabs(sums[move] / times - 1.0 / 7) < 4 * sigma);
        assert_true(fabs(squares / times / 7 - 1.0 / 49 - variance) < 0.1 * variance);
        searching_free(&s);
    }
}

/* A share of noise changes priors by no more than that, and the next move to try is still the likeliest. */
static void noise_keeps_the_order_of_trying(void **state)
{
    (void)state;
    struct tide_game game = game_of("gomoku", 5, false);
    struct opinion opinion = {.game = &game, .spread = 3, .certain = 0.5F, .fails_after = -1};
    struct tide_evaluator evaluator = opinion_evaluator(&opinion, 1);
    struct tide_random random = {.seed = 2};
    struct searching s = searching_of(&game, &usual, 1000, 1);
    tide_search_run(s.search, &evaluator, NULL, 12, 0, s.workspace.memory);
    const struct tide_child *root = tide_search_tree(s.search), *children = root + root->first;
    float before[25];
    for (int i = 0; i < 25; i++)
        before[children[i].move] = tide_prior_number(children[i].prior);
    tide_search_noise(s.search, &random);
    assert_true(root->tried > 0 && root->tried < 25);
    for (int i = 0; i < 25; i++) {
        float now = tide_prior_number(children[i].prior), was = before[children[i].move];
        assert_true(now >= 0.7499F * was && now <= 0.7501F * was + 0.2501F);
        if (i >= root->tried)
            assert_true(children[i].visits == 0 && children[i].prior <= children[root->tried].prior);
    }
    searching_free(&s);
}

static void moves_are_drawn_by_visits_and_temperature(void **state)
{
    (void)state;
    const float temperatures[] = {1, 0.5F, 2};
    struct tide_game game = game_of("tictactoe", 0, false);
    struct opinion opinion = {.game = &game, .seed = 1, .spread = 2, .certain = 0.2F, .fails_after = -1};
    struct tide_evaluator evaluator = opinion_evaluator(&opinion, 1);
    struct tide_random random = {.seed = 6};
    struct searching s = searching_of(&game, &usual, 3000, 1);
    tide_search_run(s.search, &evaluator, NULL, 120, 0, s.workspace.memory);
    uint32_t visits[9];
    tide_search_visits(s.search, visits);
    for (int t = 0; t < 3; t++) {
        double drawn[9] = {0}, sum = 0, times = 20000;
        for (int n = 0; n < (int)times; n++)
            drawn[tide_search_choose(s.search, temperatures[t], &random)]++;
        for (int move = 0; move < 9; move++)
            sum += pow(visits[move], 1 / (double)temperatures[t]);
        for (int move = 0; move < 9; move++) {
            double share = pow(visits[move], 1 / (double)temperatures[t]) / sum;
            assert_true(fabs(drawn[move] / times - share) < 4.5 * sqrt(share * (1 - share) / times) + 1e-9);
        }
    }
    uint32_t most = 0;
    for (int move = 0; move < 9; move++)
        most = visits[move] > most ? visits[move] : most;
    assert_int_equal(visits[tide_search_choose(s.search, 0, &random)], most);
    searching_free(&s);
}

/* Random games of tic-tac-toe are won by the first player 737 times in 1,260, and by the other 121 times in
 * 420. */
static void rollouts_come_to_what_random_games_do(void **state)
{
    (void)state;
    struct tide_game game = game_of("tictactoe", 0, false);
    struct tide_random random = {.seed = 8};
    struct tide_position position;
    tide_position_begin(&game, &position);
    int counts[3] = {0}, times = is_slow() ? 2000 : 40000;
    for (int n = 0; n < times; n++)
        counts[1 + tide_rollout(&game, &position, &random)]++;
    double won = 737.0 / 1260, lost = 121.0 / 420, sigma = 0.5 / sqrt(times);
    assert_true(fabs((double)counts[2] / times - won) < 4 * sigma);
    assert_true(fabs((double)counts[0] / times - lost) < 4 * sigma);
    /* The moves that are left draw or lose; after the wrong one the other side wins. */
    position = played(&game, "a1 a2 b1 b2 c2 b3 a3");
    int seen[3] = {0};
    for (int n = 0; n < 100; n++)
        seen[1 + tide_rollout(&game, &position, &random)]++;
    assert_true(seen[0] > 20 && seen[1] > 20 && seen[2] == 0);
    position = played(&game, "a1 a2 b1 b2 c2 b3 a3 c3");
    assert_int_equal(tide_rollout(&game, &position, &random), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visits_are_those_of_a_plain_search),
        cmocka_unit_test(values_have_the_sign_of_who_is_to_move),
        cmocka_unit_test(the_move_that_matters_is_found),
        cmocka_unit_test(forced_moves_are_never_missed),
        cmocka_unit_test(what_is_not_forced_keeps_its_priors),
        cmocka_unit_test(leaves_that_are_out_are_not_given_out_again),
        cmocka_unit_test(a_failing_evaluator_leaves_the_search_as_it_was),
        cmocka_unit_test(a_net_that_has_gone_mad_does_no_harm),
        cmocka_unit_test(a_search_ends_at_its_deadline_and_at_the_end_of_the_game),
        cmocka_unit_test(priors_are_a_softmax_over_what_is_possible),
        cmocka_unit_test(noise_is_dirichlets),
        cmocka_unit_test(noise_keeps_the_order_of_trying),
        cmocka_unit_test(moves_are_drawn_by_visits_and_temperature),
        cmocka_unit_test(rollouts_come_to_what_random_games_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
