/*
 * game_lines.c - finds lines on the whole board at once: a row of stones is one word, and words shifted
 * against each other show all lines of a direction.
 */
#include "game/game_private.h"

#include <string.h>

/* The rows of a board and, above and below, as many empty ones as a line can reach. Bit MARGIN + c is column
 * c; there are zeros around the columns too. */
enum { LINE_MOST = 5, MARGIN = LINE_MOST + 1, HEIGHT = TIDE_BOARD_SIDE + 2 * MARGIN };

struct rows {
    uint32_t at[HEIGHT];
};

_Static_assert(TIDE_BOARD_SIDE + 2 * MARGIN <= 32, "a row and its margins are one word");

static void rows_of(const struct tide_game *game, const uint64_t *cells, struct rows *ret)
{
    memset(ret, 0, sizeof *ret);
    for (int row = 0; row < game->rows; row++) {
        int from = row * game->columns, word = from >> 6, shift = from & 63;
        uint64_t bits = cells[word] >> shift;
        if (shift + game->columns > 64)
            bits |= cells[word + 1] << (64 - shift);
        ret->at[MARGIN + row] = (uint32_t)(bits & ((UINT64_C(1) << game->columns) - 1)) << MARGIN;
    }
}

static const int directions[4][2] = {{0, 1}, {1, 0}, {1, 1}, {1, -1}};

/* For each cell: what is `steps` steps away in a direction, for all rows at once. */
static void beyond(const struct rows *rows, const int direction[2], int steps, struct rows *ret)
{
    int down = steps * direction[0], right = steps * direction[1];
    for (int row = MARGIN; row < HEIGHT - MARGIN; row++)
        ret->at[row] = right >= 0 ? rows->at[row + down] >> right : rows->at[row + down] << -right;
}

/* Adds the cells, occupied or not, that belong to a line whose other cells are all stones: n before the cell,
 * the rest after it. */
static void add_lines(const struct tide_game *game, const struct rows *rows, const int direction[2],
                      struct rows *found)
{
    struct rows runs[2][LINE_MOST + 2],
        next; /* [before, after][n]: cells with n stones on that side of them */
    for (int side = 0; side < 2; side++) {
        memset(&runs[side][0], 0xff, sizeof next);
        for (int n = 1; n <= game->line; n++) {
            beyond(rows, direction, side ? n : -n, &next);
            for (int row = MARGIN; row < HEIGHT - MARGIN; row++)
                runs[side][n].at[row] = runs[side][n - 1].at[row] & next.at[row];
        }
    }
    for (int n = 0; n < game->line; n++) {
        const struct rows *before = runs[0] + n, *after = runs[1] + game->line - 1 - n;
        /* If more than a line does not win, there must be no more stones. */
        uint32_t longer = game->exact ? ~UINT32_C(0) : 0;
        for (int row = MARGIN; row < HEIGHT - MARGIN; row++)
            found->at[row] |=
                before[0].at[row] & after[0].at[row] & ~(longer & (before[1].at[row] | after[1].at[row]));
    }
}

bool tide_stones_have_line(const struct tide_game *game, const uint64_t stones[TIDE_BOARD_WORDS])
{
    struct rows rows, found = {{0}};
    uint32_t any = 0;
    rows_of(game, stones, &rows);
    for (int i = 0; i < 4; i++)
        add_lines(game, &rows, directions[i], &found);
    for (int row = MARGIN; row < HEIGHT - MARGIN; row++)
        any |= rows.at[row] & found.at[row];
    return any != 0;
}

void tide_position_completing(const struct tide_game *game, const struct tide_position *position, int side,
                              uint64_t ret_cells[TIDE_BOARD_WORDS])
{
    struct rows rows, found = {{0}};
    rows_of(game, position->stones[side], &rows);
    for (int i = 0; i < 4; i++)
        add_lines(game, &rows, directions[i], &found);
    memset(ret_cells, 0, TIDE_BOARD_WORDS * sizeof *ret_cells);
    for (int row = 0; row < game->rows; row++) {
        uint64_t bits = found.at[MARGIN + row] >> MARGIN & ((UINT32_C(1) << game->columns) - 1);
        int from = row * game->columns, word = from >> 6, shift = from & 63;
        ret_cells[word] |= bits << shift;
        if (shift + game->columns > 64)
            ret_cells[word + 1] |= bits >> (64 - shift);
    }
    uint64_t reached[TIDE_BOARD_WORDS] = {0};
    if (game->drops)
        for (int column = 0; column < game->columns; column++)
            if (!tide_cell_in(position->stones[0], column) && !tide_cell_in(position->stones[1], column))
                tide_cell_add(reached, tide_position_cell(game, position, column));
    for (int word = 0; word < TIDE_BOARD_WORDS; word++) {
        ret_cells[word] &= ~(position->stones[0][word] | position->stones[1][word]);
        if (game->drops)
            ret_cells[word] &= reached[word];
    }
}
