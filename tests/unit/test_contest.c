/* Ratings against known numbers, and whether their intervals hold the truth. */
#include "base/random.h"
#include "game/contest.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <cmocka.h>

static bool near(double a, double b, double by)
{
    return fabs(a - b) <= by;
}

/* Wilson's intervals of 60 in 100, 9 in 10, 0 in 10 as statistics books have them, in Elo. */
static void ratings_are_those_that_are_known(void **state)
{
    (void)state;
    struct tide_rating r = tide_contest_rate(60, 0, 40);
    assert_true(near(r.score, 0.6, 1e-12) && near(r.elo, 70.437, 0.001));
    assert_true(near(r.low, 400 * log10(0.50200 / 0.49800), 0.02) &&
                near(r.high, 400 * log10(0.69060 / 0.30940), 0.02));
    r = tide_contest_rate(9, 0, 1);
    assert_true(near(r.elo, 381.697, 0.001));
    assert_true(near(r.low, 400 * log10(0.5958 / 0.4042), 0.1) &&
                near(r.high, 400 * log10(0.98212 / 0.01788), 0.1));
    r = tide_contest_rate(0, 0, 10);
    assert_true(near(r.high, 400 * log10(0.27753 / 0.72247), 0.02));
    assert_true(near(r.elo, 400 * log10(0.5 / 10.5), 1e-9) && near(r.low, r.elo, 1e-9));
    r = tide_contest_rate(50, 100, 50);
    assert_true(near(r.elo, 0, 1e-9) && near(r.low, -r.high, 1e-9) && r.high > 40 && r.high < 50);
    r = tide_contest_rate(1, 0, 0);
    assert_true(r.elo > 0 && r.low < 0 && r.high >= r.elo && isfinite(r.high));
}

static void a_rating_turned_round_is_the_other_sides(void **state)
{
    (void)state;
    for (int won = 0; won < 12; won++)
        for (int drawn = 0; drawn < 12; drawn++)
            for (int lost = won + drawn ? 0 : 1; lost < 12; lost++) {
                struct tide_rating a = tide_contest_rate(won, drawn, lost),
                                   b = tide_contest_rate(lost, drawn, won);
                assert_true(near(a.elo, -b.elo, 1e-6) && near(a.low, -b.high, 1e-6));
                assert_true(a.low <= a.elo && a.elo <= a.high && isfinite(a.low) && isfinite(a.high));
            }
}

/* The truth lies in the interval about as often as is said. */
static void intervals_hold_the_truth(void **state)
{
    (void)state;
    const double win[] = {0.5, 0.3, 0.75, 0.9, 0.2}, draw[] = {0, 0.4, 0.1, 0, 0.6};
    struct tide_random random = {.seed = 12};
    for (int i = 0; i < 5; i++) {
        int64_t held = 0, times = 4000;
        double truth = win[i] + draw[i] / 2, elo = 400 * log10(truth / (1 - truth));
        for (int n = 0; n < times; n++) {
            int64_t counts[3] = {0};
            for (int game = 0; game < 100; game++) {
                double drawn = tide_random_next_unit(&random);
                counts[drawn < win[i] ? 0 : drawn < win[i] + draw[i] ? 1 : 2]++;
            }
            struct tide_rating r = tide_contest_rate(counts[0], counts[1], counts[2]);
            held += r.low <= elo && elo <= r.high;
        }
        assert_true(held >= times * 93 / 100);
        if (draw[i] <= 0)
            assert_true(held <= times * 98 / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratings_are_those_that_are_known),
        cmocka_unit_test(a_rating_turned_round_is_the_other_sides),
        cmocka_unit_test(intervals_hold_the_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
