#include "game/opening.h"
#include "base/check.h"

#include <math.h>
#include <stdlib.h>

static bool is_in_the_middle(const struct tide_game *game, int cell)
{
    enum { MIDDLE = 7 }; /* so many rows and columns */
    int row = cell / game->columns, column = cell % game->columns;
    return abs(2 * row + 1 - game->rows) <= MIDDLE && abs(2 * column + 1 - game->columns) <= MIDDLE;
}

static int draw_move(const struct tide_game *game, const struct tide_position *position,
                     struct tide_random *random)
{
    for (;;) {
        int move = (int)tide_random_below(random, (uint32_t)game->moves);
        if ((game->drops || is_in_the_middle(game, move)) && tide_position_may(game, position, move))
            return move;
    }
}

int tide_opening_draw(const struct tide_game *game, uint64_t seed, uint64_t number, uint64_t draw,
                      uint16_t ret_moves[TIDE_OPENING_MOVES], struct tide_position *ret_position)
{
    struct tide_random random = {.seed = tide_random_at(seed, number, draw)};
    int plies = 2 * game->line - 5 + (int)tide_random_below(&random, 2);
    TIDE_CHECK(plies, <=, TIDE_OPENING_MOVES);
    tide_position_begin(game, ret_position);
    for (int i = 0; i < plies; i++) {
        ret_moves[i] = (uint16_t)draw_move(game, ret_position, &random);
        tide_position_play(game, ret_position, ret_moves[i]);
    }
    return plies;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int tide_opening_choose(const struct tide_game *game, const struct tide_evaluator *const evaluators[2],
                        uint64_t seed, uint64_t number, const struct tide_opening_room *room,
                        struct tide_position *ret_position)
{
    int64_t most = least(room->most, least(evaluators[0]->most, evaluators[1]->most));
    struct tide_position chosen;
    float nearest = INFINITY;
    for (int64_t from = 0; from < TIDE_OPENINGS; from += most) {
        int64_t count = least(most, TIDE_OPENINGS - from);
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
