/*
 * game_lines.c - lines on the whole board at once: a row of stones is one word, so that a few words, shifted
 * by how far apart they lie, say where all lines of a direction are.
 */
#include "game/game_private.h"

#include <string.h>

/* Rows of a board and, above and below, as many empty ones as a line can reach out. Bit MARGIN + c is column
 * c; around the columns are zeros too. */
enum { MARGIN = 6, HEIGHT = TIDE_BOARD_SIDE + 2 * MARGIN };

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

/* What lies so many steps in a direction from each cell of a row. */
static uint32_t beyond(const struct rows *rows, int row, const int direction[2], int steps)
{
    uint32_t there = rows->at[MARGIN + row + steps * direction[0]];
    int right = steps * direction[1];
    return right >= 0 ? there >> right : there << -right;
}

/* The cells of a row that are number `place` of a line, be they taken or not, in which all others are. */
static uint32_t in_line(const struct tide_game *game, const struct rows *rows, int row,
                        const int direction[2], int place)
{
    uint32_t found = ~UINT32_C(0);
    for (int i = 0; i < game->line; i++)
        if (i != place)
            found &= beyond(rows, row, direction, i - place);
    if (game->exact)
        found &=
            ~beyond(rows, row, direction, -1 - place) & ~beyond(rows, row, direction, game->line - place);
    return found;
}

bool tide_stones_have_line(const struct tide_game *game, const uint64_t stones[TIDE_BOARD_WORDS])
{
    struct rows rows;
    rows_of(game, stones, &rows);
    for (int row = 0; row < game->rows; row++)
        for (int i = 0; i < 4; i++)
            if (rows.at[MARGIN + row] & in_line(game, &rows, row, directions[i], 0))
                return true;
    return false;
}

void tide_position_completing(const struct tide_game *game, const struct tide_position *position, int side,
                              uint64_t ret_cells[TIDE_BOARD_WORDS])
{
    struct rows rows;
    rows_of(game, position->stones[side], &rows);
    memset(ret_cells, 0, TIDE_BOARD_WORDS * sizeof *ret_cells);
    for (int row = 0; row < game->rows; row++) {
        uint32_t found = 0;
        for (int i = 0; i < 4; i++)
            for (int place = 0; place < game->line; place++)
                found |= in_line(game, &rows, row, directions[i], place);
        uint64_t bits = found >> MARGIN & ((UINT32_C(1) << game->columns) - 1);
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
