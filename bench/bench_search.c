/*
 * bench_search.c - simulations a second on one core, without a net: all moves alike, all positions worth
 * nothing.
 *
 *     bench_search [SECONDS [SIMULATIONS]]      2 seconds for each game, 400 simulations a move
 *
 * Whole games are played, a move drawn by visits after each search, and the subtree is kept. Time is that of
 * the thread on its processor: it is what a core does, whoever else is on the machine.
 */
#include "base/clock.h"
#include "game/evaluator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int nothing(void *context, const struct tide_position *positions, int count, float *logits,
                   float *values)
{
    (void)positions;
    const struct tide_game *game = context;
    memset(logits, 0, (size_t)count * (size_t)game->moves * sizeof *logits);
    memset(values, 0, (size_t)count * sizeof *values);
    return 0;
}

static void *made(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) {
        fprintf(stderr, "bench_search: out of memory\n");
        exit(2);
    }
    return memset(memory, 0, bytes);
}

/* Plays until the time is over. Returns simulations. */
static int64_t play(struct tide_search *search, struct tide_game *game, int64_t simulations, int64_t until,
                    int64_t *ret_moves)
{
    struct tide_evaluator evaluator = {.most = 1, .evaluate = nothing, .context = game};
    struct tide_random random = {.seed = 1};
    struct tide_position empty;
    void *workspace = made(tide_search_workspace_bytes(game, evaluator.most));
    int64_t done = 0;
    tide_position_begin(game, &empty);
    for (*ret_moves = 0; tide_clock_thread_ns() < until; ++*ret_moves) {
        if (tide_search_root(search)->outcome != TIDE_PLAYING)
            tide_search_begin(search, &empty);
        tide_search_run(search, &evaluator, NULL, simulations, 0, workspace);
        done += simulations;
        tide_search_advance(search, tide_search_choose(search, 1, &random));
    }
    free(workspace);
    return done;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    int64_t simulations = argc > 2 ? strtoll(argv[2], NULL, 10) : 400;
    const struct {
        const char *name;
        int board;
    } games[] = {{"tictactoe", 0}, {"connect4", 0}, {"gomoku", 9}, {"gomoku", 15}};
    if (!(seconds > 0 && simulations > 0 && simulations <= 1000000)) {
        fprintf(stderr, "usage: bench_search [SECONDS [SIMULATIONS]]\n");
        return 2;
    }
    printf("%-16s %14s %10s %12s %8s\n", "", "simulations/s", "moves", "pool, bytes", "full");
    for (size_t i = 0; i < sizeof games / sizeof *games; i++) {
        struct tide_game game;
        struct tide_err err;
        if (tide_game_of(games[i].name, games[i].board, false, &game, &err)) {
            fprintf(stderr, "bench_search: %s\n", err.text);
            return 2;
        }
        struct tide_search_rule rule = {.exploration = 1.8F, .first_play = 0.2F};
        int64_t children = tide_search_children(&game, 2 * simulations), moves;
        void *memory = made(tide_search_bytes(&game, children));
        struct tide_search *search = tide_search_place(&game, &rule, children, memory);
        int64_t begin = tide_clock_thread_ns();
        int64_t done = play(search, &game, simulations, begin + (int64_t)(seconds * TIDE_NS_PER_S), &moves);
        double took = (double)(tide_clock_thread_ns() - begin) / TIDE_NS_PER_S;
        struct tide_search_counts counts = tide_search_count(search);
        printf("%-9s %2d x %-2d %13.0f %10lld %12llu %8llu\n", game.name, game.columns, game.rows,
               (double)done / took, (long long)moves, (unsigned long long)counts.high_water,
               (unsigned long long)counts.full);
        free(memory);
    }
    return 0;
}
