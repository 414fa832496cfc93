/* contest.h - the ratings of two players, from the games that they played against each other. */
#ifndef TIDE_CONTEST_H
#define TIDE_CONTEST_H

#include <stdint.h>

/* What results say. Elo follows from the score on the usual scale (400 points are ten to one); low and high
 * are the ends of the 95 % interval (Wilson's, of the score). A draw is half a win and half a loss; draws
 * make the true interval narrower than this one, never wider. A score of all or nothing counts as if half of
 * one more game had gone the other way, so that all numbers are finite. */
struct tide_rating {
    double score;          /* from 0 to 1 */
    double elo, low, high; /* of the first side over the other */
};

/* At least one game. */
struct tide_rating tide_contest_rate(int64_t won, int64_t drawn, int64_t lost);

#endif
