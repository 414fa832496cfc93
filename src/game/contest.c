/* contest.c - games between two evaluators, and what they say. */
#include "game/contest.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>

/* Where the parts of the memory begin: two searches and what they share. */
struct parts {
    size_t trees[2], workspace, end;
    int64_t children[2];
};

static size_t after(size_t from, size_t bytes)
{
    return (from + bytes + 63) / 64 * 64;
}

static struct parts parts_of(const struct tide_contest *contest)
{
    struct parts parts = {.end = 0};
    int most = 1;
    for (int side = 0; side < 2; side++) {
        const struct tide_contestant *contestant = &contest->sides[side];
        /* What was kept and what is new: more than twice as much is rare, and does not stop a search. */
        parts.children[side] = tide_search_children(contest->game, 2 * contestant->simulations);
        parts.trees[side] = parts.end;
        parts.end = after(parts.end, tide_search_bytes(contest->game, parts.children[side]));
        most = contestant->evaluator.most > most ? contestant->evaluator.most : most;
    }
    parts.workspace = parts.end;
    parts.end = after(parts.end, tide_search_workspace_bytes(contest->game, most));
    return parts;
}

size_t tide_contest_bytes(const struct tide_contest *contest)
{
    return parts_of(contest).end;
}

/* Stones of openings lie in the middle of large boards, where games begin. */
static int draw_move(const struct tide_game *game, const struct tide_position *position,
                     struct tide_random *random)
{
    enum { MIDDLE = 7 };
    for (;;) {
        int move = (int)tide_random_below(random, (uint32_t)game->moves);
        int row = move / game->columns, column = move % game->columns;
        bool in_the_middle =
            abs(2 * row + 1 - game->rows) < MIDDLE + 1 && abs(2 * column + 1 - game->columns) < MIDDLE + 1;
        if ((game->drops || in_the_middle) && tide_position_may(game, position, move))
            return move;
    }
}

static bool wins_at_once(const struct tide_game *game, const struct tide_position *position)
{
    uint64_t cells[TIDE_BOARD_WORDS], any = 0;
    tide_position_completing(game, position, position->plies & 1, cells);
    for (int word = 0; word < TIDE_BOARD_WORDS; word++)
        any |= cells[word];
    return any != 0;
}

static void open_game(const struct tide_contest *contest, int pair, struct tide_position *ret_position)
{
    struct tide_random random = {.seed = tide_random_at(contest->seed, (uint64_t)pair, 1)};
    do {
        tide_position_begin(contest->game, ret_position);
        while (ret_position->plies < contest->opening && ret_position->outcome == TIDE_PLAYING)
            tide_position_play(contest->game, ret_position, draw_move(contest->game, ret_position, &random));
    } while (ret_position->outcome != TIDE_PLAYING || wins_at_once(contest->game, ret_position));
}

int tide_contest_play(const struct tide_contest *contest, int number, void *memory, int *ret_result,
                      struct tide_position *ret_end)
{
    const struct tide_game *game = contest->game;
    struct parts parts = parts_of(contest);
    struct tide_position position;
    struct tide_search *trees[2];
    TIDE_CHECK(contest->opening, <, game->line * 2 - 1); /* so that there are such openings */
    open_game(contest, number / 2, &position);
    for (int side = 0; side < 2; side++) {
        trees[side] = tide_search_place(game, &contest->sides[side].rule, parts.children[side],
                                        (char *)memory + parts.trees[side]);
        tide_search_begin(trees[side], &position);
    }
    while (position.outcome == TIDE_PLAYING) {
        int side = (position.plies + number) & 1;
        const struct tide_contestant *mover = &contest->sides[side];
        if (tide_search_run(trees[side], &mover->evaluator, mover->cache, mover->simulations, 0,
                            (char *)memory + parts.workspace))
            return -1;
        int move = tide_search_choose(trees[side], 0, NULL);
        tide_position_play(game, &position, move);
        tide_search_advance(trees[0], move);
        tide_search_advance(trees[1], move);
    }
    int winner = (position.plies - 1 + number) & 1;
    *ret_result = position.outcome == TIDE_DRAWN ? 0 : winner == 0 ? 1 : -1;
    if (ret_end)
        *ret_end = position;
    return 0;
}

static double elo_of(double score, double games)
{
    /* All but a rounding is all, too. */
    if (score < 1e-12)
        score = 0.5 / (games + 1);
    else if (score > 1 - 1e-12)
        score = (games + 0.5) / (games + 1);
    return 400 * log10(score / (1 - score));
}

struct tide_rating tide_contest_rate(int64_t won, int64_t drawn, int64_t lost)
{
    const double z = 1.959963984540054; /* 95 % of a normal distribution lie within so many deviations */
    double games = (double)(won + drawn + lost);
    TIDE_CHECK(won + drawn + lost, >, 0);
    double score = ((double)won + (double)drawn / 2) / games, share = z * z / games;
    double middle = (score + share / 2) / (1 + share);
    double half = z / (1 + share) * sqrt(score * (1 - score) / games + share / (4 * games));
    return (struct tide_rating){
        .score = score,
        .elo = elo_of(score, games),
        .low = elo_of(middle - half, games),
        .high = elo_of(middle + half, games),
    };
}
