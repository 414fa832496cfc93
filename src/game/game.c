/* game.c - the table of games, moves and results, and names. */
#include "game/game.h"

#include "base/check.h"
#include "base/random.h"
#include "base/text.h"

#include <string.h>

_Static_assert(TIDE_BOARD_WORDS * 64 >= TIDE_BOARD_CELLS, "a bit for every cell");
_Static_assert(sizeof(struct tide_position) == 120, "no bytes that nobody sets");

static const struct kind {
    const char *name;
    int columns, rows; /* the usual board */
    int least, most;   /* columns of the smallest and largest board */
    int line;
    bool drops;
} kinds[] = {
    {"tictactoe", 3, 3, 3, 3, 3, false},
    {"connect4", 7, 6, 7, 7, 4, true},
    {"gomoku", 15, 15, 5, TIDE_BOARD_SIDE, 5, false},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct kind *kind_of(const char *name, struct tide_err *err)
{
    const char *names[KINDS + 1] = {NULL};
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
        names[i] = kinds[i].name;
    }
    tide_err_set(err, "there is no game '%s'", TIDE_SHOWN(name, 64));
    const char *near = tide_text_nearest(name, names);
    if (near)
        tide_err_hint(err, "did you mean '%s'?", near);
    else
        tide_err_hint(err, "games are tictactoe, connect4 and gomoku");
    return NULL;
}

int tide_game_of(const char *name, int board, bool exact, struct tide_game *ret_game, struct tide_err *err)
{
    const struct kind *kind = kind_of(name, err);
    if (!kind)
        return -1;
    bool one = kind->least == kind->most;
    if (board == 0)
        board = kind->columns;
    if (one && board != kind->columns)
        return tide_err_set(err, "%s has one board, of %d columns and %d rows: it cannot have %d columns",
                            kind->name, kind->columns, kind->rows, board);
    if (board < kind->least)
        return tide_err_set(err,
                            "a board of %d x %d is too small for %d in a row: %s takes boards from %d to %d",
                            board, board, kind->line, kind->name, kind->least, kind->most);
    if (board > kind->most)
        return tide_err_set(err, "a board of %d x %d is too large: %s takes boards from %d to %d", board,
                            board, kind->name, kind->least, kind->most);
    if (exact && one)
        return tide_err_set(err, "--exact is for gomoku: in %s more than %d in a row win too", kind->name,
                            kind->line);
    int rows = one ? kind->rows : board;
    *ret_game = (struct tide_game){
        .name = kind->name,
        .columns = board,
        .rows = rows,
        .line = kind->line,
        .exact = exact,
        .drops = kind->drops,
        .cells = board * rows,
        .moves = kind->drops ? board : board * rows,
        .symmetries = kind->drops ? 2 : TIDE_SYMMETRIES,
    };
    return 0;
}

/* Bit 2 of a symmetry exchanges columns and rows; then bit 0 mirrors left and right, and bit 1 top and
 * bottom. A move that is a column is the cell in the top row, and stays there. */
int tide_game_symmetric(const struct tide_game *game, int symmetry, int cell_or_move)
{
    int row = cell_or_move / game->columns, column = cell_or_move % game->columns;
    if (symmetry & 4) {
        int other = row;
        row = column;
        column = other;
    }
    if (symmetry & 1)
        column = game->columns - 1 - column;
    if (symmetry & 2)
        row = game->rows - 1 - row;
    return row * game->columns + column;
}

void tide_position_begin(const struct tide_game *game, struct tide_position *ret_position)
{
    (void)game;
    *ret_position = (struct tide_position){.last = -1};
}

static bool is_taken(const struct tide_position *position, int cell)
{
    return (position->stones[0][cell >> 6] | position->stones[1][cell >> 6]) >> (cell & 63) & 1;
}

bool tide_position_may(const struct tide_game *game, const struct tide_position *position, int move)
{
    return position->outcome == TIDE_PLAYING && move >= 0 && move < game->moves && !is_taken(position, move);
}

int tide_position_moves(const struct tide_game *game, const struct tide_position *position,
                        uint16_t *ret_moves)
{
    int count = 0;
    if (position->outcome != TIDE_PLAYING)
        return 0;
    for (int word = 0; word * 64 < game->moves; word++) {
        uint64_t empty = ~(position->stones[0][word] | position->stones[1][word]);
        if (game->moves - word * 64 < 64)
            empty &= (UINT64_C(1) << (game->moves - word * 64)) - 1;
        for (; empty; empty &= empty - 1)
            ret_moves[count++] = (uint16_t)(word * 64 + __builtin_ctzll(empty));
    }
    return count;
}

int tide_position_choices(const struct tide_game *game, const struct tide_position *position)
{
    if (position->outcome != TIDE_PLAYING)
        return 0;
    if (!game->drops)
        return game->cells - position->plies;
    uint64_t top = (UINT64_C(1) << game->columns) - 1;
    return game->columns - __builtin_popcountll((position->stones[0][0] | position->stones[1][0]) & top);
}

int tide_position_cell(const struct tide_game *game, const struct tide_position *position, int move)
{
    if (!game->drops)
        return move;
    int cell = (game->rows - 1) * game->columns + move;
    while (is_taken(position, cell))
        cell -= game->columns;
    return cell;
}

/* Counts the stones in a row after a cell, at most `most`. */
static int run(const uint64_t *stones, int cell, int step, int most)
{
    int count = 0;
    while (count < most && tide_cell_in(stones, cell += step))
        count++;
    return count;
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* True if the stone in a cell has made a line. Looks at no more stones than needed. */
static bool completes(const struct tide_game *game, const uint64_t *stones, int cell)
{
    int row = cell / game->columns, column = cell % game->columns;
    int up = lesser(row, game->line), down = lesser(game->rows - 1 - row, game->line);
    int left = lesser(column, game->line), right = lesser(game->columns - 1 - column, game->line);
    const struct {
        int step, before, after; /* step: from a cell to the next; before, after: distance to the edges */
    } lines[] = {
        {1, left, right},
        {game->columns, up, down},
        {game->columns + 1, lesser(up, left), lesser(down, right)},
        {game->columns - 1, lesser(up, right), lesser(down, left)},
    };
    for (int i = 0; i < 4; i++) {
        int length = 1 + run(stones, cell, -lines[i].step, lines[i].before) +
                     run(stones, cell, lines[i].step, lines[i].after);
        if (length == game->line || (length > game->line && !game->exact))
            return true;
    }
    return false;
}

void tide_position_play(const struct tide_game *game, struct tide_position *position, int move)
{
    TIDE_CHECK_TRUE(tide_position_may(game, position, move));
    int cell = tide_position_cell(game, position, move);
    uint64_t *stones = position->stones[position->plies & 1];
    tide_cell_add(stones, cell);
    position->last = (int16_t)cell;
    position->plies++;
    if (completes(game, stones, cell))
        position->outcome = TIDE_WON;
    else if (position->plies == game->cells)
        position->outcome = TIDE_DRAWN;
}

uint64_t tide_position_key(const struct tide_game *game, const struct tide_position *position)
{
    uint64_t key = (uint64_t)game->cells;
    for (int word = 0; word * 64 < game->cells; word++)
        key = tide_random_at(key, position->stones[0][word], position->stones[1][word]);
    return key;
}

char *tide_move_name(const struct tide_game *game, int move, char ret_name[TIDE_MOVE_NAME])
{
    TIDE_CHECK_TRUE(move >= 0 && move < game->moves);
    char letter = (char)('a' + move % game->columns);
    if (game->drops)
        snprintf(ret_name, TIDE_MOVE_NAME, "%c", letter);
    else
        snprintf(ret_name, TIDE_MOVE_NAME, "%c%d", letter, game->rows - move / game->columns);
    return ret_name;
}
