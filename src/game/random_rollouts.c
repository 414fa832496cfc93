/* random_rollouts.c - random games to the end. */
#include "game/random_rollouts.h"

#include <string.h>

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

static int evaluate(void *context, const struct tide_position *positions, int count, float *logits,
                    float *values)
{
    struct tide_rollouts *rollouts = context;
    memset(logits, 0, (size_t)count * (size_t)rollouts->game->moves * sizeof *logits);
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int n = 0; n < rollouts->games; n++)
            sum += tide_rollout(rollouts->game, &positions[i], &rollouts->random);
        values[i] = (float)sum / (float)rollouts->games;
    }
    return 0;
}

struct tide_evaluator tide_rollouts_evaluator(struct tide_rollouts *rollouts)
{
    return (struct tide_evaluator){.most = 1, .evaluate = evaluate, .context = rollouts};
}
