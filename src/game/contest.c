#include "game/contest.h"

#include "base/check.h"

#include <math.h>

static double elo_of(double score, double games)
{
    /* A score that differs from 0 or 1 only by rounding counts as such. */
    if (score < 1e-12)
        score = 0.5 / (games + 1);
    else if (score > 1 - 1e-12)
        score = (games + 0.5) / (games + 1);
    return 400 * log10(score / (1 - score));
}

struct tide_rating tide_contest_rate(int64_t won, int64_t drawn, int64_t lost)
{
    const double z = 1.959963984540054; /* 95 % of a normal distribution lie within this many deviations */
    double games = (double)(won + drawn + lost);
    TIDE_CHECK(won + drawn + lost, >, 0);
    double score = ((double)won + (double)drawn / 2) / games, share = z * z / games;
    double middle = (score + share / 2) / (1 + share);
    double half = z / (1 + share) * sqrt(score * (1 - score) / games + share / (4 * games));
    return (struct tide_rating){
        .score = score,
        .elo = elo_of(score, games),
        .low = elo_of(middle - half, games),
        .high = elo_of(middle + half, games),
    };
}
