/*
 * cmd_play.c - tidemark play: plays against a trained net or against plain Monte Carlo search, on the
 * terminal or for a tournament manager.
 *
 * Standard output belongs to the protocol's lines or to the board; everything else goes to stderr.
 */
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/command.h"
#include "play/board_screen.h"
#include "play/gomocup_serve.h"
#include "rt/cpu/threads.h"
#include "train/selfplay_player.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_TIME_NS (2 * (int64_t)TIDE_NS_PER_S)
#define ABOUT           "name=\"Tidemark\", version=\"" TIDE_VERSION "\", author=\"The Tidemark authors\""

struct values {
    const char *game, *protocol, *side, *save, *open;
    int64_t board, simulations, time_ns, memory, seed, threads;
    bool rollouts, exact;
};

static const struct tide_option options[] = {
    {0, "rollouts", TIDE_OPTION_FLAG, offsetof(struct values, rollouts), NULL, NULL, 0, 0,
     "use no net: value positions by random games"},
    {0, "game", TIDE_OPTION_CHOICE, offsetof(struct values, game), "GAME", "gomoku|connect4|tictactoe", 0, 0,
     "with --rollouts: the game (gomoku)"},
    {0, "board", TIDE_OPTION_COUNT, offsetof(struct values, board), "N", NULL, 1, TIDE_BOARD_SIDE,
     "with --rollouts: columns of Gomoku's board (15)"},
    {0, "exact", TIDE_OPTION_FLAG, offsetof(struct values, exact), NULL, NULL, 0, 0,
     "with --rollouts: exactly five in a row win; six do not"},
    {0, "protocol", TIDE_OPTION_CHOICE, offsetof(struct values, protocol), "NAME", "gomocup", 0, 0,
     "show no board: talk to a tournament manager on standard input and output"},
    {0, "simulations", TIDE_OPTION_COUNT, offsetof(struct values, simulations), "N", NULL, 1,
     INT64_C(1) << 30, "how many simulations the program runs for each move"},
    {0, "time", TIDE_OPTION_DURATION, offsetof(struct values, time_ns), "TIME", NULL, TIDE_NS_PER_MS, 0,
     "how long the program thinks about a move (2s, unless --simulations is given)"},
    {0, "side", TIDE_OPTION_CHOICE, offsetof(struct values, side), "SIDE", "first|second", 0, 0,
     "whether you move first or second (first)"},
    {0, "save", TIDE_OPTION_TEXT, offsetof(struct values, save), "FILE", NULL, 0, 0,
     "save the game after every move, as .psq or .sgf; the next goes to FILE-2, and so on. None is overwritten"},
    {0, "open", TIDE_OPTION_TEXT, offsetof(struct values, open), "FILE", NULL, 0, 0,
     "go on with a saved game"},
    {0, "memory", TIDE_OPTION_SIZE, offsetof(struct values, memory), "SIZE", NULL, 0, 0,
     "memory that the whole process may use (without it, search tree and cache take up to 512 MiB)"},
    {0, "seed", TIDE_OPTION_COUNT, offsetof(struct values, seed), "N", NULL, 0, 0,
     "seed of the random games of --rollouts (a new one each time)"},
    {0, "threads", TIDE_OPTION_COUNT, offsetof(struct values, threads), "N", NULL, 1, TIDE_THREADS_MOST,
     "number of threads that compute the net (one per processor)"},
    {0},
};

/* Rejects options that cannot be used together. */
static int check(const struct values *v, int count, struct tide_err *err)
{
    if (count != !v->rollouts) {
        tide_err_set(err,
                     v->rollouts ? "--rollouts plays without a run, got %d"
                                 : "expected one run of self-play, got %d",
                     count);
        return tide_err_hint(err, "say 'tidemark play RUN', or 'tidemark play --rollouts --game connect4'");
    }
    if (!v->rollouts && (v->game || v->board || v->exact))
        return tide_err_set(err, "--game, --board and --exact need --rollouts: a run has a game of its own");
    if (v->protocol && (v->save || v->open || v->side))
        return tide_err_set(err, "--save, --open and --side are for the board, not for --protocol");
    return 0;
}

/* A saved game is never overwritten; only the game that was opened from the same file may be saved to it. */
static int check_place(const char *save, const char *open, struct tide_err *err)
{
    struct stat there, opened;
    if (stat(save, &there) ||
        (open && !stat(open, &opened) && there.st_dev == opened.st_dev && there.st_ino == opened.st_ino))
        return 0;
    const char *shown = TIDE_SHOWN(save, 200);
    tide_err_set(err, "cannot save to '%s': it exists, and a saved game is never overwritten", shown);
    return tide_err_hint(err, "choose another name with --save, or go on with it: --open %s", shown);
}

/* ---- who is played against */

struct opponent {
    struct tide_selfplay_player *net; /* NULL: --rollouts */
    struct tide_game game;
    struct tide_player player;
    char name[64];
};

/* Finds the game that was asked for, or the game of the saved file. */
static int find_game(const struct values *v, const struct tide_saved *saved, struct tide_game *ret_game,
                     struct tide_err *err)
{
    const char *name = v->game ? v->game : "gomoku";
    int board = (int)v->board;
    bool exact = v->exact;
    if (saved && !v->game)
        name = saved->columns == 3 ? "tictactoe" : saved->columns != saved->rows ? "connect4" : name;
    if (saved && !strcmp(name, "gomoku")) {
        board = board ? board : saved->columns;
        exact = exact || saved->exact;
    }
    return tide_game_of(name, board, exact, ret_game, err);
}

/* run NULL: plays by random games, without a net. */
static int open_opponent(struct opponent *o, const char *run, const struct values *v,
                         const struct tide_saved *saved, struct tide_err *err)
{
    uint64_t seed = v->seed >= 0 ? (uint64_t)v->seed : (uint64_t)tide_clock_wall_s() + (uint64_t)getpid();
    if (!run) {
        snprintf(o->name, sizeof o->name, "tidemark, by random games");
        return find_game(v, saved, &o->game, err) ||
                       tide_player_init_rollouts(&o->player, &o->game, seed, err)
                   ? -1
                   : 0;
    }
    if (tide_selfplay_open(run, &o->net, err))
        return -1;
    o->game = o->net->game;
    int64_t steps = o->net->steps;
    snprintf(o->name, sizeof o->name, "tidemark, %s step%s", TIDE_COUNT((double)steps),
             steps == 1 ? "" : "s");
    return tide_player_init(&o->player, &o->game, &o->net->evaluator, err);
}

/* ---- playing */

static int serve(const struct values *v, struct opponent *o, struct tide_err *err)
{
    struct tide_gomocup_service service = {.in = STDIN_FILENO,
                                           .out = STDOUT_FILENO,
                                           .about = ABOUT,
                                           .only_board = o->net ? o->game.columns : 0,
                                           .exact = o->game.exact,
                                           .simulations = v->simulations,
                                           .time_ns = v->time_ns,
                                           .memory_bytes = v->memory};
    if (strcmp(o->game.name, "gomoku") != 0)
        return tide_err_set(err, "the Gomocup protocol is for gomoku, not for %s", o->game.name);
    signal(SIGPIPE, SIG_IGN);
    return tide_gomocup_serve(&service, &o->player, err);
}

static int show_board(const struct values *v, struct opponent *o, const struct tide_saved *saved,
                      struct tide_err *err)
{
    struct tide_board_screen_config config = {.player = &o->player,
                                              .game = o->game,
                                              .program = o->name,
                                              .side = v->side && !strcmp(v->side, "second"),
                                              .simulations = v->simulations,
                                              .time_ns = v->time_ns,
                                              .save = v->save,
                                              .saved = saved};
    if (tide_player_limit(&o->player, v->memory, err))
        return -1;
    return tide_board_screen_run(&config, err);
}

static int play(const struct values *v, const char *run, struct tide_err *err)
{
    struct tide_saved saved;
    struct opponent opponent = {0};
    if ((!v->protocol && tide_board_screen_check(err)) || (v->save && check_place(v->save, v->open, err)) ||
        (v->open && tide_saved_read(v->open, &saved, err)))
        return -1;
    int status = open_opponent(&opponent, run, v, v->open ? &saved : NULL, err);
    if (!status && v->protocol)
        status = serve(v, &opponent, err);
    else if (!status)
        status = show_board(v, &opponent, v->open ? &saved : NULL, err);
    tide_player_release(&opponent.player);
    tide_selfplay_free(opponent.net);
    return status;
}

static int run(struct tide_command_call *call, struct tide_err *err)
{
    struct values *v = (void *)call->values;
    if (!v->simulations && !v->time_ns)
        v->time_ns = DEFAULT_TIME_NS;
    if (v->threads)
        tide_threads_set((int)v->threads);
    if (check(v, call->count, err) || play(v, call->count ? call->operands[0] : NULL, err))
        return tide_err_wrap(err, "play");
    return TIDE_EXIT_OK;
}

static const struct values usual = {.seed = -1};

const struct tide_command tide_command_play = {
    .name = "play",
    .synopsis = "[--protocol gomocup] [options] RUN | --rollouts [--game GAME] [--board N]",
    .operands = ":directories",
    .summary = "play a board game against the program",
    .details =
        "RUN is a run of `tidemark train selfplay --out RUN` (its newest complete checkpoint is used), or one of its checkpoints. With --rollouts there is no net: "
        "the search values a position by a random game from it, and first tries moves that complete a line, stop one or are near other stones.\n"
        "\n"
        "The board is on the terminal. Arrow keys or the mouse choose a cell (in Connect Four a column), enter or a click plays it. X moves first. "
        "The last stone is in (), the cursor in []. Beside the board are the program's best moves, how often it visited each, and how often "
        "it expects to win with it. u takes your last move back, n begins a new game, s changes sides, + and - double and halve how much it thinks, q quits.\n"
        "\n"
        "With --protocol gomocup there is no board: the program plays Gomoku for a tournament manager or a graphical board, over the protocol of Gomocup "
        "(START, RECTSTART, TURN, BEGIN, BOARD, INFO, RESTART, TAKEBACK, ABOUT, END). It keeps to timeout_turn and time_left, and to max_memory: the tree is "
        "sized so that the whole process stays below. An impossible command is answered with ERROR and changes nothing.",
    .exits = "0, also when the manager closes the pipe; 2 when there is trouble.",
    .examples = "tidemark play run\n"
                "tidemark play run --protocol gomocup\n"
                "tidemark play --rollouts --game connect4\n"
                "tidemark play --rollouts --board 9 --simulations 5000 --side second --save game.sgf",
    .options = options,
    .values_size = sizeof usual,
    .usual = &usual,
    .run = run,
    .computes = true,
};
