/*
 * strength.c - how well the net of a run plays: strength RUN CHECK [GAMES [SIMULATIONS [OTHER [SEED]]]]
 *
 * RUN may be one checkpoint of a run. CHECK is one of these:
 *
 * - match: games against another run or checkpoint, OTHER, as a run plays them when it evaluates;
 * - rollouts: games against plain MCTS of OTHER rollouts, each opening twice with colours exchanged; of
 *   Connect Four also how many of its moves are among the perfect ones;
 * - perfect: tic-tac-toe against a player that makes no mistake and draws among its best moves;
 * - tactics: Gomoku positions in which one move wins at once, or one alone does not lose.
 *
 * Prints one line of JSON. The same words give the same line, but for its seconds; another SEED (1) other
 * games, so that a long match may be played in parts.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/units.h"
#include "game/contest.h"
#include "game/random_rollouts.h"
#include "train/selfgames.h"
#include "train/selfplay_player.h"
#include "../tests/corpus/connect4_solver.h"
#include "../tests/corpus/gomoku_tactics.h"
#include "../tests/corpus/tictactoe_perfect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOLVED_MOST = 1000, SOLVER_BITS = 24, SOLVED_FROM = 8, OPENING = 2, MOST = 1 << 23 };

static uint64_t seed = 1;

/* Plain MCTS does not look for moves that end the game. */
static const struct tide_search_rule plain = {.exploration = 1.8F, .first_play = 0.2F},
                                     of_net = {.exploration = 1.8F, .first_play = 0.2F, .forced = true};

/* One side: an evaluator and a tree. */
struct side {
    const struct tide_game *game;
    struct tide_evaluator evaluator;
    int64_t simulations;
    struct tide_search *search;
    void *tree, *workspace;
};

static void *take(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) {
        fputs("strength: out of memory\n", stderr);
        exit(2);
    }
    memset(memory, 0, bytes);
    return memory;
}

static struct side side_of(const struct tide_game *game, const struct tide_search_rule *rule,
                           struct tide_evaluator evaluator, int64_t simulations)
{
    int64_t children = tide_search_children(game, simulations);
    struct side s = {.game = game, .evaluator = evaluator, .simulations = simulations};
    s.tree = take(tide_search_bytes(game, children));
    s.workspace = take(tide_search_workspace_bytes(game, evaluator.most));
    s.search = tide_search_place(game, rule, children, s.tree);
    return s;
}

static void no_number(void)
{
    fputs("strength: the net values a position with no number\n", stderr);
    exit(2);
}

static int choose(struct side *s, const struct tide_position *position)
{
    struct tide_random none = {0};
    tide_search_begin(s->search, position);
    if (tide_search_run(s->search, &s->evaluator, NULL, s->simulations, 0, s->workspace))
        no_number();
    return tide_search_choose(s->search, 0, &none);
}

struct results {
    int64_t won, drawn, lost; /* by the net */
    int64_t asked, right;     /* moves that truth knows, and those that were right */
};

static void count(struct results *r, const struct tide_position *end, int net)
{
    int winner = (end->plies - 1) & 1;
    if (end->outcome == TIDE_DRAWN)
        r->drawn++;
    else if (winner == net)
        r->won++;
    else
        r->lost++;
}

/* Moves by chance; both games of a pair have the same. */
static void open_game(const struct tide_game *game, int64_t number, struct tide_position *position)
{
    struct tide_random random = {.seed = tide_random_at(seed, (uint64_t)number / 2, 0)};
    uint16_t moves[TIDE_BOARD_CELLS];
    tide_position_begin(game, position);
    for (int i = 0; i < OPENING; i++) {
        int choices = tide_position_moves(game, position, moves);
        tide_position_play(game, position, moves[tide_random_below(&random, (uint32_t)choices)]);
    }
}

static struct results against_rollouts(struct side *net, struct side *other, int64_t games)
{
    struct results r = {0};
    struct connect4_solver *solver = net->game->drops ? connect4_solver_new(SOLVER_BITS) : NULL;
    for (int64_t i = 0; i < games; i++) {
        struct tide_position p;
        int mine = (int)(i & 1);
        open_game(net->game, i, &p);
        while (p.outcome == TIDE_PLAYING) {
            bool is_net = (p.plies & 1) == mine;
            int move = choose(is_net ? net : other, &p);
            if (is_net && solver && p.plies >= SOLVED_FROM && r.asked < SOLVED_MOST) {
                r.asked++;
                r.right += connect4_solver_best(solver, &p) >> move & 1;
            }
            tide_position_play(net->game, &p, move);
        }
        count(&r, &p, mine);
    }
    connect4_solver_free(solver);
    return r;
}

static struct results against_other(const struct tide_selfplay_player *net,
                                    const struct tide_selfplay_player *other, int64_t games,
                                    int64_t simulations)
{
    const struct tide_game *game = &net->game;
    struct tide_selfgames_rule rule = {.search = of_net,
                                       .games = 2 * TIDE_SELFPLAY_AT_ONCE, /* a match plays half of them */
                                       .simulations = simulations,
                                       .children = tide_search_children(game, simulations)};
    struct tide_selfgames_room room = tide_selfgames_room(game, &rule);
    void *trees = take(room.trees), *records = take(room.records), *rest = take(room.games);
    const struct tide_evaluator *const both[2] = {&net->evaluator, &other->evaluator};
    struct tide_selfgames_score score;
    struct tide_selfgames *table = tide_selfgames_place(game, &rule, &room, trees, records, NULL, rest);
    if (tide_selfgames_match(table, both, (games + 1) / 2, seed, NULL, &score))
        no_number();
    free(trees);
    free(records);
    free(rest);
    return (struct results){.won = score.wins, .drawn = score.draws, .lost = score.losses};
}

static struct results against_perfect(struct side *net, int64_t games)
{
    struct results r = {0};
    for (int64_t i = 0; i < games; i++) {
        struct tide_random random = {.seed = tide_random_at(seed, (uint64_t)i, 1)};
        struct tide_position p;
        int mine = (int)(i & 1);
        tide_position_begin(net->game, &p);
        while (p.outcome == TIDE_PLAYING) {
            unsigned best = tictactoe_perfect_best(net->game, &p);
            int move = 0, skip = (int)tide_random_below(&random, (uint32_t)__builtin_popcount(best));
            if ((p.plies & 1) == mine) {
                move = choose(net, &p);
            } else {
                for (; skip > 0; skip--)
                    best &= best - 1;
                move = __builtin_ctz(best);
            }
            tide_position_play(net->game, &p, move);
        }
        count(&r, &p, mine);
    }
    return r;
}

static struct results on_tactics(struct side *net, int64_t positions)
{
    struct results r = {0};
    for (int64_t i = 0; i < positions; i++) {
        struct gomoku_tactic t = gomoku_tactic_make(net->game, seed, (uint64_t)i);
        r.asked++;
        r.right += tide_cell_in(t.right, choose(net, &t.position));
    }
    return r;
}

static void print(const char *check, const struct tide_selfplay_player *player,
                  const struct tide_selfplay_player *other, const struct results *r, double seconds)
{
    struct tide_json json;
    int64_t games = r->won + r->drawn + r->lost;
    tide_json_init(&json, stdout, true);
    tide_json_object(&json, NULL);
    tide_json_text(&json, "game", player->game.name);
    tide_json_integer(&json, "step", player->steps);
    tide_json_text(&json, "check", check);
    if (other)
        tide_json_integer(&json, "other_step", other->steps);
    tide_json_integer(&json, "won", r->won);
    tide_json_integer(&json, "drawn", r->drawn);
    tide_json_integer(&json, "lost", r->lost);
    if (games) {
        struct tide_rating rating = tide_contest_rate(r->won, r->drawn, r->lost);
        tide_json_real(&json, "won_share", (double)r->won / (double)games);
        tide_json_real(&json, "elo", rating.elo);
        tide_json_real(&json, "elo_low", rating.low);
        tide_json_real(&json, "elo_high", rating.high);
    }
    tide_json_integer(&json, "asked", r->asked);
    tide_json_integer(&json, "right", r->right);
    tide_json_real(&json, "right_share", r->asked ? (double)r->right / (double)r->asked : NAN);
    tide_json_real(&json, "seconds", seconds);
    tide_json_end(&json);
}

static void refuse(const char *why)
{
    fprintf(stderr, "strength: %s\n", why);
    exit(2);
}

static int64_t number(int argc, char **argv, int at, int64_t usual)
{
    int64_t value = usual;
    if (argc > at && (tide_count_parse(argv[at], &value) || value < 1 || value > MOST))
        refuse("GAMES, SIMULATIONS, ROLLOUTS and SEED are numbers from 1 to 8388608");
    return value;
}

static struct tide_selfplay_player *open_run(const char *run)
{
    struct tide_selfplay_player *player;
    struct tide_err err = {0};
    if (tide_selfplay_open(run, &player, &err)) {
        fprintf(stderr, "strength: %s\n", err.text);
        exit(2);
    }
    return player;
}

static bool is_same(const struct tide_game *a, const struct tide_game *b)
{
    return !strcmp(a->name, b->name) && a->columns == b->columns && a->exact == b->exact;
}

/* A check of another name or another game would play for ever, or something else. */
static void check_game(const char *check, const struct tide_game *game)
{
    if (strcmp(check, "match") != 0 && strcmp(check, "rollouts") != 0 && strcmp(check, "perfect") != 0 &&
        strcmp(check, "tactics") != 0)
        refuse("CHECK is match, rollouts, perfect or tactics");
    if (!strcmp(check, "perfect") && strcmp(game->name, "tictactoe") != 0)
        refuse("perfect is for tictactoe");
    if (!strcmp(check, "tactics") && strcmp(game->name, "gomoku") != 0)
        refuse("tactics is for gomoku");
}

/* Moves are all alike to it: with it a search is the plain MCTS that nets are measured against. With 1,000
 * rollouts a move it plays Connect Four best at an exploration of about 2.5. */
static int value_by_rollouts(void *context, const struct tide_position *positions, int count, float *logits,
                             float *values)
{
    struct tide_rollouts *rollouts = context;
    memset(logits, 0, (size_t)count * (size_t)rollouts->game->moves * sizeof *logits);
    for (int i = 0; i < count; i++)
        values[i] = (float)tide_rollout(rollouts->game, &positions[i], &rollouts->random);
    return 0;
}

/* Games with one tree a side, or positions that it is asked. */
static struct results alone(const char *check, const struct tide_selfplay_player *player, int64_t games,
                            int64_t simulations, int64_t rollouts)
{
    const struct tide_game *game = &player->game;
    struct tide_rollouts random = {.game = game, .random = {.seed = seed}};
    struct tide_evaluator by_rollouts = {.most = 1, .evaluate = value_by_rollouts, .context = &random};
    struct side net = side_of(game, &of_net, player->evaluator, simulations),
                other = side_of(game, &plain, by_rollouts, rollouts);
    struct results r = !strcmp(check, "perfect")   ? against_perfect(&net, games)
                       : !strcmp(check, "tactics") ? on_tactics(&net, games)
                                                   : against_rollouts(&net, &other, games);
    free(net.tree);
    free(net.workspace);
    free(other.tree);
    free(other.workspace);
    return r;
}

int main(int argc, char **argv)
{
    bool is_match = argc > 2 && !strcmp(argv[2], "match");
    if (argc < (is_match ? 6 : 3)) {
        fputs("usage: strength RUN rollouts|perfect|tactics [GAMES [SIMULATIONS [ROLLOUTS [SEED]]]]\n"
              "       strength RUN match GAMES SIMULATIONS OTHER_RUN [SEED]\n",
              stderr);
        return 2;
    }
    struct tide_selfplay_player *player = open_run(argv[1]), *other = is_match ? open_run(argv[5]) : NULL;
    check_game(argv[2], &player->game);
    int64_t games = number(argc, argv, 3, 200), simulations = number(argc, argv, 4, 400);
    int64_t began = tide_clock_ns();
    seed = (uint64_t)number(argc, argv, 6, 1);
    if (is_match && !is_same(&player->game, &other->game))
        refuse("the two are of different games");
    struct results r = is_match ? against_other(player, other, games, simulations)
                                : alone(argv[2], player, games, simulations, number(argc, argv, 5, 1000));
    print(argv[2], player, other, &r, (double)(tide_clock_ns() - began) / TIDE_NS_PER_S);
    tide_selfplay_free(player);
    tide_selfplay_free(other);
    return 0;
}
