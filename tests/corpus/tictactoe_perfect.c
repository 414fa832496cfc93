/* tictactoe_perfect.c - every game from a position: 549,946 positions from the empty board, some
 * milliseconds. */
#include "tictactoe_perfect.h"

int tictactoe_perfect_result(const struct tide_game *game, const struct tide_position *position)
{
    uint16_t moves[9];
    int count = tide_position_moves(game, position, moves), best = -1;
    if (count == 0)
        return position->outcome == TIDE_WON ? -1 : 0;
    for (int i = 0; i < count && best < 1; i++) {
        struct tide_position next = *position;
        tide_position_play(game, &next, moves[i]);
        int result = -tictactoe_perfect_result(game, &next);
        best = result > best ? result : best;
    }
    return best;
}

unsigned tictactoe_perfect_best(const struct tide_game *game, const struct tide_position *position)
{
    uint16_t moves[9];
    int count = tide_position_moves(game, position, moves), most = -2;
    unsigned best = 0;
    for (int i = 0; i < count; i++) {
        struct tide_position next = *position;
        tide_position_play(game, &next, moves[i]);
        int result = -tictactoe_perfect_result(game, &next);
        if (result > most)
            best = 0;
        if (result >= most) {
            most = result;
            best |= 1U << moves[i];
        }
    }
    return best;
}
