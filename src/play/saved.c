#include "play/saved.h"
#include "base/buf.h"
#include "base/infile.h"
#include "base/outfile.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char psq_begin[] = "Piskvorky ";

/* A text that is read from front to back. */
struct cursor {
    const char *at, *end;
};

int tide_saved_form_of(const char *path, enum tide_saved_form *ret_form, struct tide_err *err)
{
    const char *dot = strrchr(tide_text_last_part(path), '.');
    if (dot && !strcasecmp(dot, ".psq"))
        *ret_form = TIDE_SAVED_PSQ;
    else if (dot && !strcasecmp(dot, ".sgf"))
        *ret_form = TIDE_SAVED_SGF;
    else
        return tide_err_set(err, "'%s' ends in neither .psq nor .sgf", TIDE_SHOWN(path, 256));
    return 0;
}

static int set_board(struct tide_saved *saved, int columns, int rows, struct tide_err *err)
{
    if (columns < 1 || rows < 1 || columns > TIDE_BOARD_SIDE || rows > TIDE_BOARD_SIDE)
        return tide_err_set(err, "a board of %dx%d is not supported", columns, rows);
    saved->columns = columns;
    saved->rows = rows;
    return 0;
}

/* Adds a stone; column and row from 0. */
static int add_stone(struct tide_saved *saved, int column, int row, int ms, struct tide_err *err)
{
    if (column < 0 || column >= saved->columns || row < 0 || row >= saved->rows)
        return tide_err_set(err, "move %d is not on the board of %dx%d", saved->count + 1, saved->columns,
                            saved->rows);
    int16_t cell = (int16_t)(row * saved->columns + column);
    for (int i = 0; i < saved->count; i++)
        if (saved->cells[i] == cell)
            return tide_err_set(err, "move %d is on a stone", saved->count + 1);
    saved->ms[saved->count] = ms;
    saved->cells[saved->count++] = cell;
    return 0;
}

static void set_name(struct tide_saved *saved, int player, const char *text, size_t len)
{
    tide_text_escape(text, len, saved->names[player], sizeof saved->names[player]);
}

/* ---- PSQ */

/* The next line, without its end. */
static bool take_line(struct cursor *c, struct cursor *ret_line)
{
    if (c->at == c->end)
        return false;
    const char *end = c->at;
    while (end < c->end && *end != '\n' && *end != '\r')
        end++;
    *ret_line = (struct cursor){c->at, end};
    c->at = end;
    while (c->at < c->end && (*c->at == '\n' || *c->at == '\r'))
        c->at++;
    return true;
}

static bool take_text(struct cursor *c, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, text, len) != 0)
        return false;
    c->at += len;
    return true;
}

/* Digits; a number that is too large stops at about a billion. Skips blanks before it. */
static bool take_number(struct cursor *c, int *ret_number)
{
    int number = 0;
    while (c->at < c->end && *c->at == ' ')
        c->at++;
    const char *begin = c->at;
    for (; c->at < c->end && isdigit((unsigned char)*c->at); c->at++)
        number = number > 100000000 ? number : number * 10 + (*c->at - '0');
    *ret_number = number;
    return c->at > begin;
}

/* "8,8,1200", or without the time. */
static bool take_move(struct cursor line, int *ret_x, int *ret_y, int *ret_ms)
{
    *ret_ms = 0;
    if (!take_number(&line, ret_x) || !take_text(&line, ",") || !take_number(&line, ret_y))
        return false;
    if (take_text(&line, ","))
        take_number(&line, ret_ms);
    return true;
}

/* After the moves: the players' names, and the result, which the moves tell as well. */
static void parse_psq_names(struct cursor c, struct tide_saved *saved)
{
    struct cursor line;
    for (int player = 0; player < 2 && take_line(&c, &line); player++) {
        if (line.at < line.end && (*line.at == '-' || isdigit((unsigned char)*line.at)))
            return;
        set_name(saved, player, line.at, (size_t)(line.end - line.at));
    }
}

static int parse_psq(struct cursor c, struct tide_saved *saved, struct tide_err *err)
{
    struct cursor line;
    int columns, rows, x, y, ms;
    take_line(&c, &line);
    take_text(&line, psq_begin);
    if (!take_number(&line, &columns) || !take_text(&line, "x") || !take_number(&line, &rows))
        return tide_err_set(err, "its first line does not say how large the board is");
    if (set_board(saved, columns, rows, err))
        return -1;
    for (struct cursor before = c; take_line(&c, &line); before = c) {
        if (!take_move(line, &x, &y, &ms)) {
            parse_psq_names(before, saved);
            break;
        }
        if (add_stone(saved, x - 1, y - 1, ms, err))
            return -1;
    }
    return 0;
}

/* ---- SGF */

enum { MOST_IDENT = 8 };

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && isspace((unsigned char)*c->at))
        c->at++;
}

/* Takes "[...]" verbatim, with escapes. */
static int take_value(struct cursor *c, struct cursor *ret_value, struct tide_err *err)
{
    const char *at = ++c->at;
    while (at < c->end && *at != ']')
        at += *at == '\\' && at + 1 < c->end ? 2 : 1;
    if (at >= c->end)
        return tide_err_set(err, "it ends within a value");
    *ret_value = (struct cursor){c->at, at};
    c->at = at + 1;
    return 0;
}

/* Sets a name without its escapes. */
static void set_sgf_name(struct tide_saved *saved, int player, struct cursor value)
{
    char text[4 * TIDE_SAVED_NAME];
    size_t len = 0;
    for (; value.at < value.end && len < sizeof text; value.at++) {
        value.at += *value.at == '\\' && value.at + 1 < value.end;
        text[len++] = *value.at;
    }
    set_name(saved, player, text, len);
}

static bool value_is(struct cursor value, const char *text)
{
    return (size_t)(value.end - value.at) == strlen(text) && !strncasecmp(value.at, text, strlen(text));
}

static int set_sgf_size(struct tide_saved *saved, struct cursor value, struct tide_err *err)
{
    int columns, rows;
    if (!take_number(&value, &columns))
        return tide_err_set(err, "its SZ is not a number");
    rows = columns;
    if (take_text(&value, ":") && !take_number(&value, &rows))
        return tide_err_set(err, "its SZ is not a number");
    if (saved->count)
        return tide_err_set(err, "its SZ comes after the first move");
    return set_board(saved, columns, rows, err);
}

static int add_sgf_move(struct tide_saved *saved, int player, struct cursor value, struct tide_err *err)
{
    if (!saved->columns)
        return tide_err_set(err, "it does not say how large the board is before the first move");
    if (player != (saved->count & 1))
        return tide_err_set(err, "move %d is by the wrong side", saved->count + 1);
    if (value.end - value.at != 2 || !islower((unsigned char)value.at[0]) ||
        !islower((unsigned char)value.at[1]))
        return tide_err_set(err, "move %d is not a point of a board", saved->count + 1);
    return add_stone(saved, value.at[0] - 'a', value.at[1] - 'a', 0, err);
}

static int take_property(struct tide_saved *saved, const char *ident, struct cursor value,
                         struct tide_err *err)
{
    if (!strcmp(ident, "GM") && !value_is(value, "4"))
        return tide_err_set(err, "it is of another game: GM is not 4, which is Gomoku");
    if (!strcmp(ident, "AB") || !strcmp(ident, "AW") || !strcmp(ident, "AE"))
        return tide_err_set(err, "it sets up stones, which is not supported");
    if (!strcmp(ident, "SZ"))
        return set_sgf_size(saved, value, err);
    if (!strcmp(ident, "B") || !strcmp(ident, "W"))
        return add_sgf_move(saved, ident[0] == 'W', value, err);
    if (!strcmp(ident, "PB") || !strcmp(ident, "PW"))
        set_sgf_name(saved, ident[1] == 'W', value);
    if (!strcmp(ident, "RU"))
        saved->exact = value_is(value, "exactly five");
    return 0;
}

/* Takes all values of the property whose name begins here. */
static int take_properties(struct cursor *c, struct tide_saved *saved, struct tide_err *err)
{
    char ident[MOST_IDENT + 1];
    struct cursor value = {0};
    size_t len = 0;
    for (; c->at < c->end && isalpha((unsigned char)*c->at); c->at++)
        if (isupper((unsigned char)*c->at) && len < MOST_IDENT) /* lower case in old files means nothing */
            ident[len++] = *c->at;
    ident[len] = '\0';
    skip_space(c);
    if (c->at == c->end || *c->at != '[')
        return tide_err_set(err, "a property has no value");
    while (c->at < c->end && *c->at == '[') {
        if (take_value(c, &value, err) || take_property(saved, ident, value, err))
            return -1;
        skip_space(c);
    }
    return 0;
}

/* The main line follows the first variation everywhere, so it ends at the first ')'. */
static int parse_sgf(struct cursor c, struct tide_saved *saved, struct tide_err *err)
{
    for (;; skip_space(&c)) {
        if (c.at == c.end)
            return tide_err_set(err, "it ends within a game");
        if (*c.at == ')')
            break;
        if (isalpha((unsigned char)*c.at)) {
            if (take_properties(&c, saved, err))
                return -1;
        } else if (*c.at == '(' || *c.at == ';' || isspace((unsigned char)*c.at)) {
            c.at++;
        } else {
            return tide_err_set(err, "it has a character that is not SGF");
        }
    }
    return saved->columns ? 0 : tide_err_set(err, "it does not say how large the board is");
}

int tide_saved_parse(const char *text, size_t len, struct tide_saved *ret_saved, struct tide_err *err)
{
    struct tide_saved saved = {0};
    struct cursor c = {text, text + len}, peek;
    if (take_text(&(struct cursor){text, text + len}, "\xef\xbb\xbf"))
        c.at += 3;
    skip_space(&c);
    peek = c;
    int bad;
    if (take_text(&peek, psq_begin))
        bad = parse_psq(c, &saved, err);
    else if (take_text(&peek, "("))
        bad = parse_sgf(c, &saved, err);
    else
        bad = tide_err_set(err, "it is neither a PSQ nor an SGF");
    if (!bad)
        *ret_saved = saved;
    return bad;
}

int tide_saved_read(const char *path, struct tide_saved *ret_saved, struct tide_err *err)
{
    struct tide_buf text;
    tide_buf_init(&text, TIDE_SAVED_MOST_BYTES);
    int bad = tide_infile_read(path, &text, err);
    if (!bad && text.failed)
        bad = tide_err_set(err, "'%s' is too large for a saved game", TIDE_SHOWN(path, 256));
    else if (!bad) {
        bad = tide_saved_parse(tide_buf_view(&text), text.len, ret_saved, err);
        if (bad)
            tide_err_wrap(err, "'%s' cannot be read as a saved game", TIDE_SHOWN(path, 256));
    }
    tide_buf_release(&text);
    return bad;
}

int tide_saved_replay(const struct tide_saved *saved, const struct tide_game *game,
                      struct tide_position *ret_position, int16_t *ret_moves, struct tide_err *err)
{
    struct tide_position position;
    tide_position_begin(game, &position);
    if (saved->columns != game->columns || saved->rows != game->rows)
        return tide_err_set(err, "the saved game is on a board of %dx%d, and %s is played on %dx%d",
                            saved->columns, saved->rows, game->name, game->columns, game->rows);
    for (int i = 0; i < saved->count; i++) {
        int cell = saved->cells[i], move = game->drops ? cell % game->columns : cell;
        if (!tide_position_may(game, &position, move) || tide_position_cell(game, &position, move) != cell)
            return tide_err_set(err, "move %d of the saved game cannot be played", i + 1);
        tide_position_play(game, &position, move);
        ret_moves[i] = (int16_t)move;
    }
    *ret_position = position;
    return 0;
}

/* ---- writing */

/* 11:11 is where the manager keeps its own settings, as in its tournaments; 0: the first player begins. */
static void write_psq(const struct tide_saved *saved, FILE *out)
{
    fprintf(out, "%s%dx%d, 11:11, 0\n", psq_begin, saved->columns, saved->rows);
    for (int i = 0; i < saved->count; i++)
        fprintf(out, "%d,%d,%d\n", saved->cells[i] % saved->columns + 1, saved->cells[i] / saved->columns + 1,
                saved->ms[i]);
    for (int player = 0; player < 2; player++) {
        const char *name = saved->names[player];
        bool like_a_move = strchr(" -0123456789", name[0]); /* also if there is no name */
        fprintf(out, like_a_move ? "\"%s\"\n" : "%s\n", name);
    }
    fputs("-1\n", out);
}

/* Puts a backslash before what would end a value or begin an escape. */
static void write_sgf_text(const char *ident, const char *text, FILE *out)
{
    fprintf(out, "%s[", ident);
    for (; *text; text++) {
        if (strchr("]\\:", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
    fputs("]", out);
}

static void write_sgf(const struct tide_saved *saved, const struct tide_game *game, int winner, FILE *out)
{
    fputs("(;FF[4]GM[4]CA[UTF-8]AP[tidemark]", out);
    fprintf(out, saved->columns == saved->rows ? "SZ[%d]" : "SZ[%d:%d]", saved->columns, saved->rows);
    write_sgf_text("GN", game->name, out);
    if (saved->exact)
        write_sgf_text("RU", "exactly five", out);
    for (int player = 0; player < 2; player++)
        if (saved->names[player][0])
            write_sgf_text(player ? "PW" : "PB", saved->names[player], out);
    if (winner >= 0)
        fprintf(out, "RE[%c+]", winner ? 'W' : 'B');
    for (int i = 0; i < saved->count; i++)
        fprintf(out, "%s;%c[%c%c]", i % 10 ? "" : "\n", i & 1 ? 'W' : 'B',
                'a' + saved->cells[i] % saved->columns, 'a' + saved->cells[i] / saved->columns);
    fputs(")\n", out);
}

int tide_saved_write(const struct tide_saved *saved, const struct tide_game *game, int winner,
                     const char *path, struct tide_err *err)
{
    enum tide_saved_form form;
    struct tide_outfile file;
    if (tide_saved_form_of(path, &form, err) || tide_outfile_open(&file, path, err))
        return -1;
    if (form == TIDE_SAVED_PSQ)
        write_psq(saved, file.out);
    else
        write_sgf(saved, game, winner, file.out);
    return tide_outfile_commit(&file, err);
}
