#include "play/board_view.h"
#include "base/units.h"

enum {
    TOP = 1,         /* row of the board's first row */
    LEFT = 4,        /* column of its first column */
    STEP = 2,        /* columns from one cell to the next */
    BELOW = 3,       /* rows under the board: letters, a message, keys */
    LEAST_ASIDE = 20 /* the fewest columns beside the board worth using */
};

static const char stones[] = {'X', 'O'};

static int row_of(const struct tide_game *game, int cell)
{
    return TOP + cell / game->columns;
}

static int column_of(const struct tide_game *game, int cell)
{
    return LEFT + STEP * (cell % game->columns);
}

int tide_board_view_move_at(const struct tide_game *game, int row, int column)
{
    int x = (column - LEFT + STEP / 2) / STEP, y = row - TOP;
    if (column < LEFT - STEP / 2 || x >= game->columns || y < 0 || y > game->rows - !game->drops)
        return -1;
    return game->drops ? x : y * game->columns + x;
}

/* Returns whose stone is on a cell: 0, 1; -1: nobody's. */
static int stone_on(const struct tide_position *position, int cell)
{
    return tide_cell_in(position->stones[0], cell) ? 0 : tide_cell_in(position->stones[1], cell) ? 1 : -1;
}

static void draw_board(const struct tide_board_view *v, struct tide_cells *cells)
{
    static const enum tide_style styles[] = {TIDE_STYLE_FLOOR, TIDE_STYLE_DOUBT};
    for (int cell = 0; cell < v->game->cells; cell++) {
        int stone = stone_on(v->position, cell);
        tide_cells_rune(cells, row_of(v->game, cell), column_of(v->game, cell),
                        stone < 0 ? TIDE_STYLE_DIM : styles[stone],
                        stone < 0 ? '.' : (uint32_t)stones[stone]);
    }
    for (int y = 0; y < v->game->rows; y++)
        tide_cells_format(cells, TOP + y, 0, 3, TIDE_STYLE_DIM, "%2d", v->game->rows - y);
    for (int x = 0; x < v->game->columns; x++)
        tide_cells_rune(cells, TOP + v->game->rows, LEFT + STEP * x, TIDE_STYLE_DIM, (uint32_t)('a' + x));
}

/* Draws two marks around a cell. */
static void embrace(const struct tide_board_view *v, struct tide_cells *cells, int cell, const char marks[2],
                    enum tide_style style)
{
    int row = row_of(v->game, cell), column = column_of(v->game, cell);
    tide_cells_rune(cells, row, column - 1, style, (uint32_t)marks[0]);
    tide_cells_rune(cells, row, column + 1, style, (uint32_t)marks[1]);
}

static void draw_marks(const struct tide_board_view *v, struct tide_cells *cells)
{
    if (v->position->last >= 0)
        embrace(v, cells, v->position->last, "()", TIDE_STYLE_STRONG);
    if (v->cursor < 0)
        return;
    int cell = v->cursor; /* if stones fall, the cell where the next would land; in a full column its top */
    if (v->game->drops && tide_position_may(v->game, v->position, v->cursor))
        cell = tide_position_cell(v->game, v->position, v->cursor);
    embrace(v, cells, cell, "[]", TIDE_STYLE_CHOSEN);
    tide_cells_paint(cells, row_of(v->game, cell), column_of(v->game, cell), 1, TIDE_STYLE_CHOSEN);
}

/* ---- beside the board */

static void draw_title(const struct tide_board_view *v, struct tide_cells *cells)
{
    const char *before = v->game->exact ? "exactly " : "", *behind = v->game->line == 5 ? " or more" : "";
    tide_cells_format(cells, 0, 0, cells->columns, TIDE_STYLE_STRONG, "%s %dx%d, %s%d%s in a row",
                      v->game->name, v->game->columns, v->game->rows, before, v->game->line,
                      v->game->exact ? "" : behind);
}

static void draw_state(const struct tide_board_view *v, struct tide_cells *cells, int row, int column,
                       int width)
{
    int mover = v->position->plies & 1;
    for (int player = 0; player < 2; player++)
        tide_cells_format(cells, row + player, column, width, TIDE_STYLE_PLAIN, "%c  %s", stones[player],
                          v->names[player]);
    if (v->position->outcome == TIDE_WON)
        tide_cells_format(cells, row + 3, column, width, TIDE_STYLE_STRONG, "%c has won in %d moves",
                          stones[!mover], v->position->plies);
    else if (v->position->outcome == TIDE_DRAWN)
        tide_cells_text(cells, row + 3, column, width, TIDE_STYLE_STRONG, "a draw");
    else
        tide_cells_format(cells, row + 3, column, width, TIDE_STYLE_STRONG, "move %d: %c %s",
                          v->position->plies + 1, stones[mover], v->thinks ? "thinks" : "to play");
}

static void draw_mind(const struct tide_board_view *v, struct tide_cells *cells, int row, int column,
                      int width)
{
    if (v->simulations <= 0)
        return;
    tide_cells_format(cells, row, column, width, TIDE_STYLE_PLAIN, "%c: %s simulations, %.1f s",
                      stones[v->thinker], TIDE_COUNT((double)v->simulations), v->seconds);
    tide_cells_text(cells, row + 1, column, width, TIDE_STYLE_DIM, "move    visits    wins");
    for (int i = 0; i < v->thought_count; i++) {
        char name[TIDE_MOVE_NAME];
        const struct tide_thought *thought = &v->thoughts[i];
        tide_cells_format(cells, row + 2 + i, column, width, i ? TIDE_STYLE_PLAIN : TIDE_STYLE_GOOD,
                          "%-4s%10s%6.1f %%", tide_move_name(v->game, thought->move, name),
                          TIDE_COUNT((double)thought->visits), (double)thought->win * 100);
    }
}

static void draw_aside(const struct tide_board_view *v, struct tide_cells *cells)
{
    int column = LEFT + STEP * v->game->columns + 2, width = cells->columns - column;
    if (width < LEAST_ASIDE)
        return;
    draw_state(v, cells, TOP, column, width);
    draw_mind(v, cells, TOP + 5, column, width);
    tide_cells_text(cells, TOP + 7 + TIDE_BOARD_THOUGHTS, column, width, TIDE_STYLE_DIM, v->strength);
}

void tide_board_view_draw(const struct tide_board_view *view, struct tide_cells *cells)
{
    static const char keys[] =
        "arrows hjkl move  enter play  u take back  n new  s sides  + - strength  q quit";
    int rows = TOP + view->game->rows + BELOW, columns = LEFT + STEP * view->game->columns;
    tide_cells_clear(cells);
    if (cells->rows < rows || cells->columns < columns) {
        tide_cells_format(cells, 0, 0, cells->columns, TIDE_STYLE_PLAIN,
                          "the board needs %d columns and %d rows", columns, rows);
        return;
    }
    draw_title(view, cells);
    draw_board(view, cells);
    draw_marks(view, cells);
    draw_aside(view, cells);
    tide_cells_text(cells, cells->rows - 2, 0, cells->columns,
                    view->is_trouble ? TIDE_STYLE_BAD : TIDE_STYLE_PLAIN, view->message);
    tide_cells_text(cells, cells->rows - 1, 0, cells->columns, TIDE_STYLE_DIM, keys);
}
