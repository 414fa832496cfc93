#include "play/board_screen.h"
#include "base/clock.h"
#include "base/units.h"
#include "play/board_view.h"
#include "term/keys.h"
#include "term/term.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WHO      "the board"
#define SLICE_NS (30 * (int64_t)TIDE_NS_PER_MS) /* of thinking, between two checks of the keyboard */
#define FRAME_NS (100 * (int64_t)TIDE_NS_PER_MS)
#define IDLE_NS  (1000 * (int64_t)TIDE_NS_PER_MS)

enum { MOST_STRENGTH = 1 << 30 };

struct screen {
    const struct tide_board_screen_config *config;
    const struct tide_game *game;
    struct tide_player *player;
    struct tide_term *term;
    struct tide_cells cells;
    struct tide_board_view view;
    struct tide_position position;
    int16_t moves[TIDE_BOARD_CELLS]; /* of this game, position.plies of them */
    int32_t ms[TIDE_BOARD_CELLS];    /* time of each */
    int64_t began_ns;                /* start of thinking about the current move */
    int64_t drawn_ns;
    struct tide_turn turn;
    bool thinks; /* about `position`, within `turn` */
    int side;    /* the user's */
    int game_number;
    int64_t simulations, time_ns;
    char strength[64], message[256];
    bool dirty, quits;
    struct tide_err save_error; /* of the last try; "": it is saved */
};

static const char user_name[] = "you";

static void say(struct screen *s, bool is_trouble, const char *text)
{
    snprintf(s->message, sizeof s->message, "%s", text);
    s->view.is_trouble = is_trouble;
    s->dirty = true;
}

static void name_strength(struct screen *s)
{
    if (s->simulations)
        snprintf(s->strength, sizeof s->strength, "%s simulations a move",
                 TIDE_COUNT((double)s->simulations));
    else
        snprintf(s->strength, sizeof s->strength, "%s a move", TIDE_DURATION((double)s->time_ns / 1e9));
}

static void name_players(struct screen *s)
{
    s->view.names[s->side] = user_name;
    s->view.names[!s->side] = s->config->program;
}

/* ---- saving */

/* "a.psq", then "a-2.psq". */
static const char *name_file(const struct screen *s, char *path, size_t size)
{
    const char *dot = strrchr(s->config->save, '.');
    int stem = (int)(dot - s->config->save);
    if (s->game_number < 2)
        snprintf(path, size, "%s", s->config->save);
    else
        snprintf(path, size, "%.*s-%d%s", stem, s->config->save, s->game_number, dot);
    return path;
}

/* Takes the next number whose file does not exist. */
static void number_game(struct screen *s)
{
    char path[PATH_MAX];
    do
        s->game_number++;
    while (s->config->save && !access(name_file(s, path, sizeof path), F_OK));
}

static void save(struct screen *s)
{
    char path[PATH_MAX];
    struct tide_saved saved = {.columns = s->game->columns,
                               .rows = s->game->rows,
                               .exact = s->game->exact,
                               .count = s->position.plies};
    struct tide_position position;
    if (!s->config->save)
        return;
    tide_position_begin(s->game, &position);
    for (int i = 0; i < saved.count; i++) {
        saved.cells[i] = (int16_t)tide_position_cell(s->game, &position, s->moves[i]);
        saved.ms[i] = s->ms[i];
        tide_position_play(s->game, &position, s->moves[i]);
    }
    for (int player = 0; player < 2; player++)
        snprintf(saved.names[player], sizeof saved.names[player], "%.60s", s->view.names[player]);
    s->save_error = (struct tide_err){0};
    int winner = s->position.outcome == TIDE_WON ? !(s->position.plies & 1) : -1;
    if (tide_saved_write(&saved, s->game, winner, name_file(s, path, sizeof path), &s->save_error))
        say(s, true, s->save_error.text);
}

/* ---- the game */

static bool is_playing(const struct screen *s)
{
    return s->position.outcome == TIDE_PLAYING;
}

static bool is_users_turn(const struct screen *s)
{
    return is_playing(s) && (s->position.plies & 1) == s->side;
}

static int begin_thinking(struct screen *s, struct tide_err *err)
{
    s->turn = (struct tide_turn){.simulations = s->simulations};
    if (s->time_ns)
        s->turn.deadline_ns = tide_clock_ns() + s->time_ns;
    s->thinks = true;
    s->view.thinker = s->position.plies & 1;
    return tide_player_set(s->player, s->game, &s->position, err);
}

/* Called after every change of the position or the sides. */
static int go_on(struct screen *s, struct tide_err *err)
{
    s->began_ns = tide_clock_ns();
    s->thinks = false;
    s->dirty = true;
    name_players(s);
    return is_playing(s) && !is_users_turn(s) ? begin_thinking(s, err) : 0;
}

static int play(struct screen *s, int move, struct tide_err *err)
{
    int64_t took_ms = (tide_clock_ns() - s->began_ns) / TIDE_NS_PER_MS;
    s->moves[s->position.plies] = (int16_t)move;
    s->ms[s->position.plies] = took_ms > INT32_MAX ? INT32_MAX : (int32_t)took_ms;
    tide_position_play(s->game, &s->position, move);
    say(s, false, "");
    save(s);
    return go_on(s, err);
}

static int user_plays(struct screen *s, int move, struct tide_err *err)
{
    s->view.cursor = move;
    s->dirty = true;
    if (!is_playing(s))
        say(s, false, "the game is over: n begins a new one");
    else if (!is_users_turn(s))
        say(s, false, "it is not your turn yet");
    else if (!tide_position_may(s->game, &s->position, move))
        say(s, false, s->game->drops ? "that column is full" : "there is a stone on that cell");
    else
        return play(s, move, err);
    return 0;
}

/* Goes back to the user's previous move: one ply while the program thinks, else two. */
static int take_back(struct screen *s, struct tide_err *err)
{
    int plies = s->position.plies - 1;
    while (plies >= 0 && (plies & 1) != s->side)
        plies--;
    if (plies < 0) {
        say(s, false, "there is no move of yours to take back");
        return 0;
    }
    tide_position_begin(s->game, &s->position);
    for (int i = 0; i < plies; i++)
        tide_position_play(s->game, &s->position, s->moves[i]);
    s->view.thought_count = 0;
    s->view.simulations = 0;
    say(s, false, "taken back");
    save(s);
    return go_on(s, err);
}

static int begin_game(struct screen *s, struct tide_err *err)
{
    if (s->position.plies > 0)
        number_game(s);
    tide_position_begin(s->game, &s->position);
    s->view.thought_count = 0;
    s->view.simulations = 0;
    say(s, false, "a new game");
    return go_on(s, err);
}

static int change_sides(struct screen *s, struct tide_err *err)
{
    s->side = !s->side;
    say(s, false, s->side ? "you play O, and move second" : "you play X, and move first");
    return go_on(s, err);
}

static void change_strength(struct screen *s, bool up)
{
    int64_t *what = s->simulations ? &s->simulations : &s->time_ns;
    int64_t least = s->simulations ? 1 : 10 * TIDE_NS_PER_MS;
    int64_t most = s->simulations ? MOST_STRENGTH : INT64_C(3600) * TIDE_NS_PER_S;
    int64_t wanted = up ? *what * 2 : *what / 2;
    *what = wanted < least ? least : wanted > most ? most : wanted;
    name_strength(s);
    say(s, false, "from the next move on");
}

/* ---- keys */

static void move_cursor(struct screen *s, int dx, int dy)
{
    const struct tide_game *g = s->game;
    int x = s->view.cursor % g->columns + dx, y = s->view.cursor / g->columns + dy;
    int rows = g->drops ? 1 : g->rows;
    x = x < 0 ? 0 : x >= g->columns ? g->columns - 1 : x;
    y = y < 0 ? 0 : y >= rows ? rows - 1 : y;
    s->view.cursor = y * g->columns + x;
    s->dirty = true;
}

static int press(struct screen *s, int key, struct tide_err *err)
{
    switch (key) {
    case 'q':
    case 'Q':
    case TIDE_KEY_INTERRUPT:
        s->quits = true;
        return 0;
    case TIDE_KEY_LEFT:
    case 'h':
        move_cursor(s, -1, 0);
        return 0;
    case TIDE_KEY_RIGHT:
    case 'l':
        move_cursor(s, 1, 0);
        return 0;
    case TIDE_KEY_UP:
    case 'k':
        move_cursor(s, 0, -1);
        return 0;
    case TIDE_KEY_DOWN:
    case 'j':
        move_cursor(s, 0, 1);
        return 0;
    case TIDE_KEY_ENTER:
    case ' ':
        return user_plays(s, s->view.cursor, err);
    case 'u':
        return take_back(s, err);
    case 'n':
        return begin_game(s, err);
    case 's':
        return change_sides(s, err);
    case '+':
    case '=':
    case '-':
        change_strength(s, key != '-');
        return 0;
    default:
        return 0;
    }
}

static int click(struct screen *s, struct tide_err *err)
{
    int row, column;
    tide_term_clicked(s->term, &row, &column);
    int move = tide_board_view_move_at(s->game, row, column);
    return move < 0 ? 0 : user_plays(s, move, err);
}

/* ---- the loop */

static void draw(struct screen *s)
{
    s->view.thinks = s->thinks;
    tide_board_view_draw(&s->view, &s->cells);
    tide_term_show(s->term, &s->cells);
    s->drawn_ns = tide_clock_ns();
    s->dirty = false;
}

static int fit(struct screen *s, struct tide_err *err)
{
    int columns, rows;
    tide_term_size(s->term, &columns, &rows);
    s->dirty = true;
    return tide_cells_resize(&s->cells, columns, rows) ? tide_err_set(err, "out of memory for the screen")
                                                       : 0;
}

/* Thinks for a slice and handles the result. */
static int think(struct screen *s, struct tide_err *err)
{
    int status = tide_player_step(s->player, &s->turn, SLICE_NS, err);
    if (status < 0)
        return -1;
    int64_t now_ns = tide_clock_ns();
    s->dirty = s->dirty || status || now_ns - s->drawn_ns >= FRAME_NS;
    if (s->dirty) {
        s->view.simulations = s->turn.done;
        s->view.seconds = (double)(now_ns - s->began_ns) / TIDE_NS_PER_S;
        s->view.thought_count = tide_player_mind(s->player, s->view.thoughts, TIDE_BOARD_THOUGHTS);
    }
    return status ? play(s, tide_player_best(s->player), err) : 0;
}

static int handle(struct screen *s, enum tide_term_event event, int key, struct tide_err *err)
{
    switch (event) {
    case TIDE_TERM_KEY:
        return press(s, key, err);
    case TIDE_TERM_CLICK:
        return click(s, err);
    case TIDE_TERM_RESIZED:
        return fit(s, err);
    case TIDE_TERM_LEAVE:
        s->quits = true;
        return 0;
    default:
        return 0;
    }
}

static int loop(struct screen *s, struct tide_err *err)
{
    if (fit(s, err) || go_on(s, err))
        return -1;
    while (!s->quits) {
        int key = 0;
        if (s->thinks && think(s, err))
            return -1;
        if (s->dirty)
            draw(s);
        enum tide_term_event event = tide_term_wait(s->term, s->thinks ? 0 : IDLE_NS, -1, &key);
        for (; event != TIDE_TERM_NOTHING && !s->quits; event = tide_term_wait(s->term, 0, -1, &key))
            if (handle(s, event, key, err))
                return -1;
    }
    return 0;
}

int tide_board_screen_check(struct tide_err *err)
{
    if (!tide_term_check(WHO, err))
        return 0;
    return tide_err_hint(err, "'--protocol gomocup' needs none");
}

static int set_up(struct screen *s, struct tide_err *err)
{
    const struct tide_board_screen_config *config = s->config;
    int middle = config->game.drops ? 0 : config->game.rows / 2 * config->game.columns;
    s->view = (struct tide_board_view){.game = s->game,
                                       .position = &s->position,
                                       .cursor = middle + config->game.columns / 2,
                                       .strength = s->strength,
                                       .message = s->message};
    name_strength(s);
    name_players(s);
    tide_position_begin(s->game, &s->position);
    if (!config->saved)
        return 0;
    memcpy(s->ms, config->saved->ms, sizeof s->ms);
    return tide_saved_replay(config->saved, s->game, &s->position, s->moves, err);
}

int tide_board_screen_run(const struct tide_board_screen_config *config, struct tide_err *err)
{
    struct screen s = {.config = config,
                       .game = &config->game,
                       .player = config->player,
                       .side = config->side,
                       .game_number = 1,
                       .simulations = config->simulations,
                       .time_ns = config->time_ns};
    enum tide_saved_form form;
    if ((config->save && tide_saved_form_of(config->save, &form, err)) || set_up(&s, err) ||
        tide_board_screen_check(err) || tide_term_open(WHO, &s.term, err))
        return -1;
    tide_term_mouse(s.term);
    tide_cells_init(&s.cells, !tide_term_unicode());
    int status = loop(&s, err);
    tide_term_close(s.term);
    tide_cells_release(&s.cells);
    if (!status && s.save_error.text[0]) {
        *err = s.save_error;
        status = -1;
    }
    return status;
}
