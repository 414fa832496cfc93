/*
 * priors.c - the priors of a search: softmax over possible moves, and Dirichlet noise at the root.
 *
 * The exponential function is our own: the C library's may round differently from one processor to the next,
 * and a search must be the same everywhere.
 */
#include "game/search_private.h"

#include "base/check.h"

#include <math.h>
#include <string.h>

/* e^x for x from -80 to 0, to a few units in the last place. Branches would prevent vectorisation. */
static float exponential(float x)
{
    union {
        int32_t bits;
        float number;
    } power;
    int32_t whole = (int32_t)(x * 1.44269504F - 0.5F);
    float rest = x - (float)whole * 0.693359375F + (float)whole * 2.12194440e-4F;
    float sum = 1.98756915e-4F;
    sum = sum * rest + 1.39819995e-3F;
    sum = sum * rest + 8.33345205e-3F;
    sum = sum * rest + 4.16657962e-2F;
    sum = sum * rest + 1.66666654e-1F;
    sum = sum * rest + 0.5F;
    power.bits = (whole + 127) * (1 << 23);
    return (sum * rest * rest + rest + 1) * power.number;
}

/* Loops run over whole groups of LANES numbers, each lane with its own maximum and sum, so that they
 * vectorise with the same order of additions everywhere. */
enum { LANES = 8, NUMBERS = (TIDE_BOARD_CELLS + LANES - 1) / LANES * LANES };

/* Replaces the first `count` logits by exponentials relative to the largest. Returns the sum. */
static float exponentials(float *numbers, int count)
{
    float most[LANES], sums[LANES] = {0};
    for (int i = 0; i < LANES; i++)
        most[i] = -INFINITY;
    for (int i = count; i % LANES; i++)
        numbers[i] = -INFINITY;
    for (int i = 0; i < count; i += LANES)
        for (int k = 0; k < LANES; k++)
            most[k] = numbers[i + k] > most[k] ? numbers[i + k] : most[k];
    for (int k = 1; k < LANES; k++)
        most[0] = most[k] > most[0] ? most[k] : most[0];
    /* NaN, or a logit too far below the largest, counts as nearly nothing. */
    for (int i = 0; i < count; i++) {
        float below = numbers[i] - most[0];
        numbers[i] = exponential(below > -80 ? below : -80);
    }
    for (int i = count; i % LANES; i++)
        numbers[i] = 0;
    for (int i = 0; i < count; i += LANES)
        for (int k = 0; k < LANES; k++)
            sums[k] += numbers[i + k];
    for (int k = 1; k < LANES; k++)
        sums[0] += sums[k];
    return sums[0];
}

void tide_search_priors(const struct tide_game *game, const struct tide_position *position,
                        const float *logits, uint16_t *ret_priors)
{
    uint16_t moves[TIDE_BOARD_CELLS], codes[TIDE_BOARD_CELLS];
    float numbers[NUMBERS];
    int count = tide_position_moves(game, position, moves);
    for (int i = 0; i < count; i++)
        numbers[i] = logits[moves[i]];
    float sum = exponentials(numbers, count);
    for (int i = 0; i < count; i++)
        codes[i] = tide_prior_code(numbers[i] / sum);
    memset(ret_priors, 0, (size_t)game->moves * sizeof *ret_priors);
    for (int i = 0; i < count; i++)
        ret_priors[moves[i]] = codes[i];
}

void tide_priors_force(const struct tide_game *game, const struct tide_position *position, uint16_t *priors)
{
    uint64_t cells[TIDE_BOARD_WORDS];
    bool forced[TIDE_BOARD_CELLS] = {false};
    int count = 0;
    for (int other = 0; other < 2 && count == 0; other++) {
        tide_position_completing(game, position, (position->plies & 1) ^ other, cells);
        for (int word = 0; word < TIDE_BOARD_WORDS; word++)
            for (uint64_t left = cells[word]; left; left &= left - 1, count++) {
                int cell = word * 64 + __builtin_ctzll(left);
                forced[game->drops ? cell % game->columns : cell] = true;
            }
    }
    if (count == 0)
        return;
    float sum = 0;
    for (int move = 0; move < game->moves; move++)
        sum += forced[move] ? tide_prior_number(priors[move]) : 0;
    for (int move = 0; move < game->moves; move++) {
        float share = sum > 0 ? tide_prior_number(priors[move]) / sum : 1 / (float)count;
        priors[move] = forced[move] ? tide_prior_code(share) : 0;
    }
}

static double draw_normal(struct tide_random *random)
{
    double radius = sqrt(-2 * log(1 - tide_random_next_unit(random)));
    return radius * cos(2 * M_PI * tide_random_next_unit(random));
}

/* Marsaglia and Tsang, ACM Transactions on Mathematical Software 26 (2000). */
static double draw_gamma(double alpha, struct tide_random *random)
{
    if (alpha < 1)
        return draw_gamma(alpha + 1, random) * pow(1 - tide_random_next_unit(random), 1 / alpha);
    double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = draw_normal(random), v = 1 + c * x;
        v *= v * v;
        if (v > 0 && log(1 - tide_random_next_unit(random)) < x * x / 2 + d - d * v + d * log(v))
            return d * v;
    }
}

void tide_search_noise(struct tide_search *search, struct tide_random *random)
{
    struct tide_child *root = tide_search_tree(search), *children = root + root->first;
    TIDE_CHECK(root->count, >, 0);
    TIDE_CHECK(root->out, ==, 0);
    TIDE_CHECK_TRUE(search->rule.noise_alpha > 0);
    /* Draws in the order of moves, which does not depend on the order in which they were tried. */
    double drawn[TIDE_BOARD_CELLS] = {0}, sum = 0;
    bool possible[TIDE_BOARD_CELLS] = {false};
    for (int i = 0; i < root->count; i++)
        possible[children[i].move] = true;
    for (int move = 0; move < search->game.moves; move++)
        if (possible[move])
            sum += drawn[move] = draw_gamma((double)search->rule.noise_alpha, random);
    double share = sum > 0 ? (double)search->rule.noise_share : 0;
    for (int i = 0; i < root->count; i++) {
        double prior = (double)tide_prior_number(children[i].prior);
        double noise = sum > 0 ? drawn[children[i].move] / sum : 0;
        children[i].prior = tide_prior_code((float)((1 - share) * prior + share * noise));
    }
    tide_search_bring_next(root, children);
}
