/* contest.h - the ratings of two players, from the games that they played against each other. */
#ifndef TIDE_CONTEST_H
#define TIDE_CONTEST_H

#include <stdint.h>

/* What results say. Elo is what the score comes to in the usual scale (400 points are ten to one); low and
 * high are the ends of the 95 % interval, Wilson's of the score. Draws are half won and half lost; they make
 * the truth vary less than the interval says, never more. A score of all or nothing counts as if half of one
 * more game had gone the other way, so that all numbers are finite. */
struct tide_rating {
    double score;          /* from 0 to 1 */
    double elo, low, high; /* of the first side over the other */
};

/* At least one game. */
struct tide_rating tide_contest_rate(int64_t won, int64_t drawn, int64_t lost);

#endif
