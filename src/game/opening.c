#include "game/opening.h"
#include "base/check.h"
#include "base/whole.h"

#include <math.h>
#include <stdlib.h>

/* True if a cell is in the middle square of that side. */
static bool is_in_the_middle(const struct tide_game *game, int cell, int side)
{
    int row = cell / game->columns, column = cell % game->columns;
    return abs(2 * row + 1 - game->rows) <= side && abs(2 * column + 1 - game->columns) <= side;
}

static int draw_move(const struct tide_game *game, const struct tide_position *position, int side,
                     struct tide_random *random)
{
    for (;;) {
        int move = (int)tide_random_below(random, (uint32_t)game->moves);
        if ((game->drops || is_in_the_middle(game, move, side)) && tide_position_may(game, position, move))
            return move;
    }
}

/* Draws the side of a square: from the least that one player's stones need to the whole board. */
static int draw_side(const struct tide_game *game, struct tide_random *random)
{
    int smallest = game->line < game->rows ? game->line : game->rows;
    return smallest + (int)tide_random_below(random, (uint32_t)(game->rows - smallest + 1));
}

int tide_opening_draw(const struct tide_game *game, uint64_t seed, uint64_t number, uint64_t draw,
                      uint16_t ret_moves[TIDE_OPENING_MOVES], struct tide_position *ret_position)
{
    struct tide_random random = {.seed = tide_random_at(seed, number, draw)};
    int plies = game->line - 2 + (int)tide_random_below(&random, (uint32_t)(game->line - 1));
    int sides[2];
    for (int i = 0; i < 2; i++)
        sides[i] = draw_side(game, &random);
    TIDE_CHECK(plies, <=, TIDE_OPENING_MOVES);
    tide_position_begin(game, ret_position);
    for (int i = 0; i < plies; i++) {
        ret_moves[i] = (uint16_t)draw_move(game, ret_position, sides[i & 1], &random);
        tide_position_play(game, ret_position, ret_moves[i]);
    }
    return plies;
}

int tide_opening_choose(const struct tide_game *game, const struct tide_evaluator *const evaluators[2],
                        uint64_t seed, uint64_t number, const struct tide_opening_room *room,
                        struct tide_position *ret_position)
{
    int64_t most = tide_smaller(room->most, tide_smaller(evaluators[0]->most, evaluators[1]->most));
    struct tide_position chosen;
    float nearest = INFINITY;
    for (int64_t from = 0; from < TIDE_OPENINGS; from += most) {
        int64_t count = tide_smaller(most, TIDE_OPENINGS - from);
        float sums[TIDE_OPENINGS] = {0};
        uint16_t moves[TIDE_OPENING_MOVES];
        for (int64_t i = 0; i < count; i++)
            tide_opening_draw(game, seed, number, (uint64_t)(from + i), moves, &room->positions[i]);
        for (int side = 0; side < 2; side++) {
            const struct tide_evaluator *e = evaluators[side];
            if (e->evaluate(e->context, room->positions, (int)count, room->logits, room->values))
                return -1;
            for (int64_t i = 0; i < count; i++)
                sums[i] += room->values[i];
        }
        for (int64_t i = 0; i < count; i++)
            if (from + i == 0 || fabsf(sums[i]) < nearest) {
                nearest = fabsf(sums[i]);
                chosen = room->positions[i];
            }
    }
    *ret_position = chosen;
    return 0;
}
