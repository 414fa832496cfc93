/* random_rollouts.c - random games to the end. */
#include "game/random_rollouts.h"

int tide_rollout(const struct tide_game *game, const struct tide_position *position,
                 struct tide_random *random)
{
    struct tide_position now = *position;
    uint16_t moves[TIDE_BOARD_CELLS];
    int count = tide_position_moves(game, &now, moves);
    while (now.outcome == TIDE_PLAYING) {
        uint32_t drawn = tide_random_below(random, (uint32_t)count);
        int move = moves[drawn];
        tide_position_play(game, &now, move);
        if (!tide_position_may(game, &now, move))
            moves[drawn] = moves[--count];
    }
    if (now.outcome == TIDE_DRAWN)
        return 0;
    return (now.plies - 1) % 2 == position->plies % 2 ? 1 : -1;
}
