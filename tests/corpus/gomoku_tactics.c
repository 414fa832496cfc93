/* gomoku_tactics.c - random games, until one of them comes to a position of the kind. */
#include "gomoku_tactics.h"

#include <stdlib.h>
#include <string.h>

static int cells_in(const uint64_t cells[TIDE_BOARD_WORDS])
{
    int count = 0;
    for (int word = 0; word < TIDE_BOARD_WORDS; word++)
        count += __builtin_popcountll(cells[word]);
    return count;
}

/* An empty cell not far from some stone: from a random one of them in a random direction; the first ones lie
 * in the middle. */
static int near_others(const struct tide_game *game, const struct tide_position *position,
                       struct tide_random *random)
{
    for (;;) {
        int row = game->rows / 2, column = game->columns / 2;
        int stone = (int)tide_random_below(random, (uint32_t)game->cells);
        bool taken = tide_cell_in(position->stones[0], stone) || tide_cell_in(position->stones[1], stone);
        if (position->plies > 0 && !taken)
            continue;
        if (position->plies > 0) {
            row = stone / game->columns;
            column = stone % game->columns;
        }
        row += (int)tide_random_below(random, 5) - 2;
        column += (int)tide_random_below(random, 5) - 2;
        if (row < 0 || row >= game->rows || column < 0 || column >= game->columns)
            continue;
        if (tide_position_may(game, position, row * game->columns + column))
            return row * game->columns + column;
    }
}

static bool is_kind(const struct tide_game *game, struct gomoku_tactic *tactic)
{
    int side = tactic->position.plies & 1;
    uint64_t other[TIDE_BOARD_WORDS];
    tide_position_completing(game, &tactic->position, side, tactic->right);
    int wins = cells_in(tactic->right);
    if (tactic->kind == GOMOKU_WINS)
        return wins > 0;
    tide_position_completing(game, &tactic->position, !side, other);
    memcpy(tactic->right, other, sizeof other);
    return wins == 0 && cells_in(other) == 1;
}

struct gomoku_tactic gomoku_tactic_make(const struct tide_game *game, uint64_t seed, uint64_t number)
{
    struct tide_random random = {.seed = tide_random_at(seed, number, 0)};
    struct gomoku_tactic tactic = {.kind = number % 2 ? GOMOKU_BLOCKS : GOMOKU_WINS};
    for (tide_position_begin(game, &tactic.position);;) {
        if (is_kind(game, &tactic))
            return tactic;
        tide_position_play(game, &tactic.position, near_others(game, &tactic.position, &random));
        if (tactic.position.outcome != TIDE_PLAYING)
            tide_position_begin(game, &tactic.position);
    }
}
