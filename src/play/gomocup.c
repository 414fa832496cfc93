#include "play/gomocup.h"
#include "base/check.h"
#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { OWN = 1, OTHER = 2 }; /* fields of BOARD */

static const char no_game[] = "START comes first";

/* Bits of INFO rule. */
enum { RULE_EXACT = 1 };

void tide_gomocup_init(struct tide_gomocup *gomocup, const char *about, int only_board)
{
    *gomocup = (struct tide_gomocup){.about = about, .only_board = only_board, .limits = {-1, -1, -1, -1}};
}

__attribute__((format(printf, 2, 3))) static enum tide_gomocup_want answer(struct tide_gomocup *g,
                                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(g->answer, sizeof g->answer - 1, format, args);
    va_end(args);
    strcat(g->answer, "\n");
    return TIDE_GOMOCUP_ANSWERS;
}

/* ---- numbers and coordinates */

/* A decimal number, limited to `most`; skips blanks before it. */
static bool take_number(const char **at, int64_t most, int64_t *ret_number)
{
    const char *s = *at + strspn(*at, " \t");
    bool negative = *s == '-';
    int64_t number = 0;
    s += negative;
    if (!isdigit((unsigned char)*s))
        return false;
    for (; isdigit((unsigned char)*s); s++)
        number = number > (most - 9) / 10 ? most : number * 10 + (*s - '0');
    *ret_number = negative ? -number : number;
    *at = s + strspn(s, " \t");
    return true;
}

/* `count` numbers with commas between them, and nothing after. */
static bool take_numbers(const char *text, int count, int64_t *ret_numbers)
{
    for (int i = 0; i < count; i++) {
        if (i > 0 && *text++ != ',')
            return false;
        if (!take_number(&text, 1000000, &ret_numbers[i]))
            return false;
    }
    return *text == '\0';
}

static int stone_at(const struct tide_gomocup_stones *stones, int cell)
{
    for (int i = 0; i < stones->count; i++)
        if (stones->at[i].cell == cell)
            return i;
    return -1;
}

static int cell_of(const struct tide_gomocup *g, const int64_t xy[2], struct tide_err *err)
{
    if (xy[0] < 0 || xy[0] >= g->game.columns || xy[1] < 0 || xy[1] >= g->game.rows)
        return tide_err_set(err, "%lld,%lld is not on the board of %dx%d", (long long)xy[0], (long long)xy[1],
                            g->game.columns, g->game.rows);
    return (int)xy[1] * g->game.columns + (int)xy[0];
}

/* Parses "X,Y". Returns the cell, or -1. */
static int take_cell(const struct tide_gomocup *g, const char *text, struct tide_err *err)
{
    int64_t xy[2];
    if (!take_numbers(text, 2, xy))
        return tide_err_set(err, "expected coordinates X,Y");
    return cell_of(g, xy, err);
}

static int put_stone(struct tide_gomocup *g, int cell, bool own, struct tide_err *err)
{
    if (stone_at(&g->stones, cell) >= 0)
        return tide_err_set(err, "there is a stone on %d,%d already", cell % g->game.columns,
                            cell / g->game.columns);
    g->stones.at[g->stones.count].cell = (int16_t)cell;
    g->stones.at[g->stones.count++].own = own;
    return 0;
}

/* ---- positions */

/* The stones may have come in any order: only their owners count, and which of the opponent's is the last. */
static int make_position(struct tide_gomocup *g, struct tide_err *err)
{
    uint8_t packed[2 + (TIDE_BOARD_CELLS + 3) / 4] = {0};
    int counts[2] = {0}, last = -1;
    for (int i = 0; i < g->stones.count; i++)
        counts[g->stones.at[i].own]++;
    int own = counts[1], other = counts[0];
    if (other != own && other != own + 1)
        return tide_err_set(err, "it is not this player's turn: it has %d stones, and the other has %d", own,
                            other);
    bool begins = own == other;
    for (int i = 0; i < g->stones.count; i++) {
        int cell = g->stones.at[i].cell, code = g->stones.at[i].own == begins ? 1 : 2;
        packed[2 + cell / 4] |= (uint8_t)(code << cell % 4 * 2);
        if (!g->stones.at[i].own)
            last = cell;
    }
    packed[0] = (uint8_t)last;
    packed[1] = (uint8_t)(last >> 8);
    if (tide_position_unpack(&g->game, packed, &g->position, err))
        return -1;
    return g->position.outcome == TIDE_PLAYING ? 0 : tide_err_set(err, "the game is over");
}

static enum tide_gomocup_want fail(struct tide_gomocup *g, const char *why)
{
    g->stones = g->kept;
    return answer(g, "ERROR %s", why);
}

static enum tide_gomocup_want think(struct tide_gomocup *g)
{
    struct tide_err err = {0};
    return make_position(g, &err) ? fail(g, err.text) : TIDE_GOMOCUP_THINKS;
}

void tide_gomocup_move(struct tide_gomocup *gomocup, int move)
{
    TIDE_CHECK_TRUE(tide_position_may(&gomocup->game, &gomocup->position, move));
    put_stone(gomocup, move, true, NULL);
    answer(gomocup, "%d,%d", move % gomocup->game.columns, move / gomocup->game.columns);
}

void tide_gomocup_fail(struct tide_gomocup *gomocup, const char *why)
{
    fail(gomocup, why);
}

/* ---- commands */

static enum tide_gomocup_want start(struct tide_gomocup *g, int64_t board)
{
    struct tide_err err = {0};
    struct tide_game game;
    if (board < 1 || board > TIDE_BOARD_SIDE)
        return answer(g, "ERROR a board has 5 to %d columns", TIDE_BOARD_SIDE);
    if (g->only_board && board != g->only_board)
        return answer(g, "ERROR this net plays on a board of %dx%d", g->only_board, g->only_board);
    if (tide_game_of("gomoku", (int)board, g->exact, &game, &err))
        return answer(g, "ERROR %s", err.text);
    g->game = game;
    g->stones.count = 0;
    return answer(g, "OK");
}

static enum tide_gomocup_want do_start(struct tide_gomocup *g, const char *text)
{
    int64_t board;
    return take_numbers(text, 1, &board) ? start(g, board) : answer(g, "ERROR expected START SIZE");
}

static enum tide_gomocup_want do_rectstart(struct tide_gomocup *g, const char *text)
{
    int64_t sides[2];
    if (!take_numbers(text, 2, sides))
        return answer(g, "ERROR expected RECTSTART WIDTH,HEIGHT");
    return sides[0] == sides[1] ? start(g, sides[0]) : answer(g, "ERROR the board must be square");
}

static enum tide_gomocup_want do_restart(struct tide_gomocup *g, const char *text)
{
    (void)text;
    g->stones.count = 0;
    return answer(g, "OK");
}

static enum tide_gomocup_want do_begin(struct tide_gomocup *g, const char *text)
{
    (void)text;
    return g->stones.count ? answer(g, "ERROR the board is not empty") : think(g);
}

static enum tide_gomocup_want do_turn(struct tide_gomocup *g, const char *text)
{
    struct tide_err err = {0};
    int cell = take_cell(g, text, &err);
    return cell < 0 || put_stone(g, cell, false, &err) ? fail(g, err.text) : think(g);
}

static enum tide_gomocup_want do_takeback(struct tide_gomocup *g, const char *text)
{
    struct tide_err err = {0};
    int cell = take_cell(g, text, &err);
    if (cell < 0)
        return fail(g, err.text);
    int at = stone_at(&g->stones, cell);
    if (at < 0)
        return answer(g, "ERROR there is no stone on %d,%d", cell % g->game.columns, cell / g->game.columns);
    g->stones.count--;
    memmove(&g->stones.at[at], &g->stones.at[at + 1],
            (size_t)(g->stones.count - at) * sizeof g->stones.at[0]);
    return answer(g, "OK");
}

static enum tide_gomocup_want do_board(struct tide_gomocup *g, const char *text)
{
    (void)text;
    g->stones.count = 0;
    snprintf(g->board_error, sizeof g->board_error, "%s", g->game.cells ? "" : no_game);
    g->reads_board = true;
    return TIDE_GOMOCUP_MORE;
}

/* Takes a line between BOARD and DONE. The first bad one spoils the board, which is reported at DONE. */
static void take_board_line(struct tide_gomocup *g, const char *line)
{
    struct tide_err err = {0};
    int64_t numbers[3];
    if (g->board_error[0])
        return;
    int cell = -1;
    if (!take_numbers(line, 3, numbers) || (numbers[2] != OWN && numbers[2] != OTHER))
        tide_err_set(&err, "expected X,Y,1 or X,Y,2 or DONE after BOARD");
    else
        cell = cell_of(g, numbers, &err);
    if (cell < 0 || put_stone(g, cell, numbers[2] == OWN, &err))
        snprintf(g->board_error, sizeof g->board_error, "%s", err.text);
}

static enum tide_gomocup_want end_board(struct tide_gomocup *g)
{
    g->reads_board = false;
    return g->board_error[0] ? fail(g, g->board_error) : think(g);
}

static enum tide_gomocup_want set_rule(struct tide_gomocup *g, int64_t rule)
{
    if (rule & ~(int64_t)RULE_EXACT)
        return answer(g, "ERROR rule %lld is not supported: 0 is five or more, 1 exactly five",
                      (long long)rule);
    g->exact = g->game.exact = rule == RULE_EXACT;
    return TIDE_GOMOCUP_MORE;
}

/* Needs no answer. Ignores other keys (game_type, folder). */
static enum tide_gomocup_want do_info(struct tide_gomocup *g, const char *text)
{
    const struct {
        const char *name;
        int64_t *value;
    } limits[] = {{"timeout_turn", &g->limits.turn_ms},
                  {"timeout_match", &g->limits.match_ms},
                  {"time_left", &g->limits.left_ms},
                  {"max_memory", &g->limits.memory_bytes}};
    size_t len = strcspn(text, " \t");
    const char *rest = text + len;
    int64_t number;
    bool is_number = take_number(&rest, INT64_MAX / 2, &number) && !*rest;
    if (len == 4 && !strncasecmp(text, "rule", len))
        return is_number ? set_rule(g, number) : answer(g, "ERROR expected INFO rule NUMBER");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (strlen(limits[i].name) != len || strncasecmp(text, limits[i].name, len))
            continue;
        if (!is_number)
            return answer(g, "ERROR expected INFO %s NUMBER", limits[i].name);
        *limits[i].value = number < 0 ? 0 : number; /* no time left */
    }
    return TIDE_GOMOCUP_MORE;
}

static enum tide_gomocup_want do_about(struct tide_gomocup *g, const char *text)
{
    (void)text;
    return answer(g, "%s", g->about);
}

static enum tide_gomocup_want do_end(struct tide_gomocup *g, const char *text)
{
    (void)g, (void)text;
    return TIDE_GOMOCUP_ENDS;
}

static const struct command {
    const char *name;
    bool needs_game; /* START must have come */
    enum tide_gomocup_want (*run)(struct tide_gomocup *g, const char *text);
} commands[] = {
    {"START", false, do_start},      {"RECTSTART", false, do_rectstart},
    {"RESTART", true, do_restart},   {"BEGIN", true, do_begin},
    {"TURN", true, do_turn},         {"BOARD", false, do_board},
    {"TAKEBACK", true, do_takeback}, {"INFO", false, do_info},
    {"ABOUT", false, do_about},      {"END", false, do_end},
};

static const struct command *find_command(const char *line, size_t len)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strlen(commands[i].name) == len && !strncasecmp(line, commands[i].name, len))
            return &commands[i];
    return NULL;
}

/* ---- lines */

static enum tide_gomocup_want run_line(struct tide_gomocup *g, const char *line)
{
    size_t len = strcspn(line, " \t");
    const struct command *command = find_command(line, len);
    if (g->reads_board && !command) {
        if (!strcasecmp(line, "DONE"))
            return end_board(g);
        take_board_line(g, line);
        return TIDE_GOMOCUP_MORE;
    }
    if (g->reads_board) { /* the manager gave up on BOARD */
        g->reads_board = false;
        g->stones = g->kept;
    }
    if (!command)
        return answer(g, "UNKNOWN %s", TIDE_ESCAPED(line, len, 64));
    if (command->needs_game && !g->game.cells)
        return answer(g, "ERROR %s", no_game);
    g->kept = g->stones;
    return command->run(g, line + len + strspn(line + len, " \t"));
}

static enum tide_gomocup_want end_line(struct tide_gomocup *g)
{
    size_t len = g->line_len;
    while (len && (g->line[len - 1] == ' ' || g->line[len - 1] == '\t'))
        len--;
    g->line[len] = '\0';
    g->line_len = 0;
    const char *line = g->line + strspn(g->line, " \t");
    if (g->line_too_long) {
        g->line_too_long = false;
        if (!g->reads_board)
            return answer(g, "ERROR the line is longer than %d bytes", TIDE_GOMOCUP_LINE - 1);
        line = "too long"; /* spoils the board, like any line that is not a stone */
    } else if (memchr(g->line, '\0', len)) {
        line = "\xff"; /* not a command: it contains a NUL */
    }
    return *line ? run_line(g, line) : TIDE_GOMOCUP_MORE;
}

size_t tide_gomocup_feed(struct tide_gomocup *gomocup, const char *bytes, size_t len,
                         enum tide_gomocup_want *ret_want)
{
    *ret_want = TIDE_GOMOCUP_MORE;
    for (size_t i = 0; i < len;) {
        char c = bytes[i++];
        if (c == '\n' || c == '\r') {
            *ret_want = end_line(gomocup);
            if (*ret_want != TIDE_GOMOCUP_MORE)
                return i;
        } else if (gomocup->line_len < sizeof gomocup->line - 1) {
            gomocup->line[gomocup->line_len++] = c;
        } else {
            gomocup->line_too_long = true;
        }
    }
    return len;
}

bool tide_gomocup_is_ending(const char *bytes, size_t len)
{
    while (len && isspace((unsigned char)*bytes))
        bytes++, len--;
    return len > 3 && !strncasecmp(bytes, "END", 3) && (bytes[3] == '\n' || bytes[3] == '\r');
}
