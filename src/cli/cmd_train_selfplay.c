/*
 * cmd_train_selfplay.c - tidemark train selfplay: learns a board game by playing against itself, in memory
 * laid out beforehand.
 */
#include "cli/train_loop.h"
#include "train/selfplay.h"

#include <stddef.h>
#include <string.h>

struct values {
    struct tide_train_values shared;
    struct tide_selfplay_options selfplay;
    const char *net;
    bool exact;
};

#define SETTING(field) offsetof(struct values, selfplay.settings.field)

static const struct tide_option options[] = {
    {0, "game", TIDE_OPTION_CHOICE, SETTING(game), "NAME", "tictactoe|connect4|gomoku", 0, 0,
     "the game (gomoku)"},
    {0, "board", TIDE_OPTION_COUNT, SETTING(board), "N", NULL, 1, TIDE_BOARD_SIDE,
     "columns and rows of Gomoku's board, from 5 to 20 (15)"},
    {0, "exact", TIDE_OPTION_FLAG, offsetof(struct values, exact), NULL, NULL, 0, 0,
     "in Gomoku, exactly five in a row win; six do not"},
    {0, "net", TIDE_OPTION_TEXT, offsetof(struct values, net), "NAME", NULL, 0, 0,
     "the net: tiny (default); 10x96, 14x128, 18x192 and 30x192 (blocks x channels, depthwise with squeeze-and-excitation); plain:BxC, of plain 3x3 convolutions"},
    {0, "simulations", TIDE_OPTION_COUNT, SETTING(simulations), "N", NULL, 1, 1 << 24,
     "simulations of the search before each move (100)"},
    {0, "games-at-once", TIDE_OPTION_COUNT, SETTING(games), "N", NULL, 1, 1 << 16,
     "games played at the same time; the net values their positions together (64)"},
    {0, "replay", TIDE_OPTION_COUNT, SETTING(replay), "N", NULL, 1, 1 << 30,
     "how many positions are kept for training (100000)"},
    {0, "positions", TIDE_OPTION_COUNT, SETTING(positions), "N", NULL, 1, 1 << 30,
     "new positions in each step (1024)"},
    {0, "batch", TIDE_OPTION_COUNT, SETTING(batch), "N", NULL, 1, 1 << 20, "positions in each update (256)"},
    {0, "reuse", TIDE_OPTION_REAL, SETTING(reuse), "X", NULL, 0, 0,
     "how often a position is trained on, on average: this sets the number of updates in a step (4)"},
    {0, "sampled-moves", TIDE_OPTION_COUNT, SETTING(sampled_plies), "N", NULL, 0, 1 << 16,
     "first moves of a game that are drawn in proportion to their visits; later moves are the most visited (2 plus an eighth of the cells)"},
    {0, "exploration", TIDE_OPTION_REAL, SETTING(exploration), "X", NULL, 0, 0,
     "how much priors weigh against values in a search (1.8)"},
    {0, "noise-alpha", TIDE_OPTION_REAL, SETTING(noise_alpha), "X", NULL, 0, 0,
     "alpha of the Dirichlet noise in the priors at the root of a search (10 divided by the number of moves)"},
    {0, "noise-share", TIDE_OPTION_REAL, SETTING(noise_share), "X", NULL, 0, 0,
     "share of that noise in those priors (0.25)"},
    {0, "openings", TIDE_OPTION_REAL, SETTING(openings), "X", NULL, 0, 0,
     "share of the games that begin with a few random stones, as the games of matches do (0)"},
    {0, "value-weight", TIDE_OPTION_REAL, SETTING(value_weight), "X", NULL, 0, 0,
     "weight of the value loss, where the policy loss has 1 (1)"},
    {0, "children", TIDE_OPTION_COUNT, SETTING(children), "N", NULL, 1, UINT32_MAX,
     "how many moves a tree has room for, at 48 bytes each (as many as the simulations can need); in a full tree the search goes on without new moves"},
    {0, "cache", TIDE_OPTION_SIZE, SETTING(cache_bytes), "SIZE", NULL, 0, 0,
     "memory that caches the net's answers (32M; 0: none)"},
    {0, "match-games", TIDE_OPTION_COUNT, SETTING(match_games), "N", NULL, 0, 1 << 20,
     "games in each evaluation, against the weights of the evaluation before (40; 0: none)"},
    {0},
};

static struct tide_task *make(void *values, struct tide_err *err)
{
    struct values *v = values;
    struct tide_selfplay_settings *s = &v->selfplay.settings;
    if (v->net && strlen(v->net) >= sizeof s->net) {
        tide_err_set(err, "the name of --net is too long");
        return NULL;
    }
    if (v->net)
        strcpy(s->net, v->net);
    if (v->exact)
        s->exact = 1;
    return tide_selfplay_new(&v->selfplay);
}

static void init(void *values)
{
    struct values *v = values;
    tide_train_values_init(&v->shared, make);
    v->shared.eval_every = v->shared.save_every = 50;
    tide_settings_clear(tide_selfplay_settings, &v->selfplay.settings);
}

const struct tide_command tide_train_selfplay = {
    .name = "train selfplay",
    .synopsis = "[--game NAME] [--board N] [--net NAME] [--budget SIZE] [--out DIR] [options]",
    .summary = "learn a board game by playing against itself",
    .details =
        "Learns as AlphaZero does. A net says which moves of a position are promising and who is ahead. A search over many positions finds better moves than the net alone. The net "
        "learns from these searches and from how its games end. A step plays until there are --positions new positions, and then updates the net.\n"
        "\n"
        "All memory is laid out before the first step: the net and what training it needs, the trees of all searches, the positions that are kept, and a cache of what the net said. "
        "None of them grows. In a full tree the search goes on without new moves; the output says how often that happened.\n"
        "\n"
        "Every 50 steps (--eval-every) the net plays a match against the weights of the match before. Elo begins at 0 and adds up from match to match.\n"
        "\n"
        "Checkpoints hold the net, the optimizer, the kept positions and the games under way: a resumed run gives the same bits as one that was never stopped, with any number of threads.\n"
        "\n"
        "The first SIGINT, SIGTERM or SIGHUP ends the run after the current step or, if that takes more than five seconds, as soon as every game has made its next move. The run then saves a "
        "checkpoint if --out is given, and exits with 128 plus the signal's number. The second signal kills it. Exit code: 0 when all steps are done, 2 when there is trouble.",
    .examples =
        "tidemark train selfplay --game connect4 --steps 200 --out run\n"
        "tidemark train selfplay --game gomoku --board 15 --net 10x96 --simulations 400 --games-at-once 64 --replay 500000 --budget 1.5G\n"
        "tidemark train selfplay --out run --resume auto --steps 400\n"
        "tidemark plan -- tidemark train selfplay --game gomoku --net 10x96",
    .options = options,
    .shared = tide_train_shared,
    .values_size = sizeof(struct values),
    .init = init,
    .run = tide_train_main,
};
