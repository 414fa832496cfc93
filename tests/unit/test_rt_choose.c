/*
 * test_rt_choose.c - choosing a token against the distribution it promises, and against a plain sort.
 */
#include "rt/cpu/choose.h"
#include "base/random.h"
#include "sanitized.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const double shares[5] = {0.05, 0.4, 0.2, 0.3, 0.05};

/* How often each of the five tokens comes, out of so many draws that are spread evenly. */
static void count_choices(const struct tide_sample_rule *rule, int draws, double counts[5])
{
    float logits[5];
    for (int i = 0; i < 5; i++) {
        logits[i] = (float)log(shares[i]) + 3;
        counts[i] = 0;
    }
    for (int i = 0; i < draws; i++) {
        int64_t token = tide_sample_choose(logits, 5, rule, (i + 0.5) / draws, NULL);
        assert_in_range(token, 0, 4);
        counts[token] += 1.0 / draws;
    }
}

static void expect_shares(double temperature, int64_t top_k, double top_p, const double expected[5])
{
    struct tide_sample_rule rule = {.temperature = temperature, .top_k = top_k, .top_p = top_p};
    double counts[5];
    int draws = is_slow() ? 5000 : 100000;
    count_choices(&rule, draws, counts);
    for (int i = 0; i < 5; i++)
        if (fabs(counts[i] - expected[i]) > 3.0 / draws)
            fail_msg("temperature %g, top-k %lld, top-p %g: token %d has %g instead of %g", temperature,
                     (long long)top_k, top_p, i, counts[i], expected[i]);
}

static void tokens_come_as_often_as_the_rule_says(void **state)
{
    (void)state;
    expect_shares(1, 0, 1, shares);
    expect_shares(1, 5, 1, shares);
    expect_shares(1, 500, 1, shares);
    double roots[5], sum = 0;
    for (int i = 0; i < 5; i++)
        sum += sqrt(shares[i]);
    for (int i = 0; i < 5; i++)
        roots[i] = sqrt(shares[i]) / sum;
    expect_shares(2, 0, 1, roots);
    expect_shares(0, 0, 1, (double[5]){0, 1, 0, 0, 0});
    expect_shares(1e-300, 0, 1, (double[5]){0, 1, 0, 0, 0});
    expect_shares(1e300, 0, 1, (double[5]){0.2, 0.2, 0.2, 0.2, 0.2});
    expect_shares(1, 1, 1, (double[5]){0, 1, 0, 0, 0});
    expect_shares(1, 2, 1, (double[5]){0, 4. / 7, 0, 3. / 7, 0});
    expect_shares(1, 4, 1, (double[5]){0.05 / 0.95, 0.4 / 0.95, 0.2 / 0.95, 0.3 / 0.95, 0}); /* a tie */
    expect_shares(1, 0, 1e-9, (double[5]){0, 1, 0, 0, 0});
    expect_shares(1, 0, 0.39, (double[5]){0, 1, 0, 0, 0});
    expect_shares(1, 0, 0.69, (double[5]){0, 4. / 7, 0, 3. / 7, 0});
    expect_shares(1, 0, 0.71, (double[5]){0, 4. / 9, 2. / 9, 3. / 9, 0});
    /* The share is one of those that top-k left: 0.4 of 0.7 is 57 %. */
    expect_shares(1, 2, 0.56, (double[5]){0, 1, 0, 0, 0});
    expect_shares(1, 2, 0.58, (double[5]){0, 4. / 7, 0, 3. / 7, 0});
}

/* Against Pearson's statistic: 4 degrees of freedom exceed 18.5 once in a thousand; the seed is fixed. */
static void seeds_draw_from_the_distribution(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    struct tide_sample_rule rule = {.temperature = 1, .top_p = 1};
    float logits[5];
    double counts[5] = {0}, statistic = 0;
    for (int i = 0; i < 5; i++)
        logits[i] = (float)log(shares[i]);
    for (uint64_t i = 0; i < DRAWS; i++)
        counts[tide_sample_choose(logits, 5, &rule, tide_random_unit(11, i, 0), NULL)]++;
    for (int i = 0; i < 5; i++)
        statistic += pow(counts[i] - DRAWS * shares[i], 2) / (DRAWS * shares[i]);
    assert_true(statistic < 18.5);
}

static void the_likeliest_of_many_are_found(void **state)
{
    (void)state;
    enum { COUNT = 5003, KEPT = 40 };
    static float logits[COUNT];
    bool seen[COUNT] = {0};
    for (int i = 0; i < COUNT; i++)
        logits[i] = (float)(tide_random_at(2, (uint64_t)i, 0) % 997) / 100; /* with ties */
    struct tide_sample_rule rule = {.temperature = 100, .top_k = KEPT, .top_p = 1};
    for (int i = 0; i < 10 * KEPT; i++) /* of which each has about ten */
        seen[tide_sample_choose(logits, COUNT, &rule, i / (10. * KEPT), NULL)] = true;
    int kept = 0;
    for (int i = 0; i < COUNT; i++) {
        int before = 0; /* by comparing each with each */
        for (int j = 0; j < COUNT && seen[i]; j++)
            before += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
        assert_true(before < KEPT);
        kept += seen[i];
    }
    assert_int_equal(kept, KEPT);
}

static void what_is_no_number_is_not_chosen_from(void **state)
{
    (void)state;
    struct tide_sample_rule rule = {.temperature = 1, .top_k = 2, .top_p = 0.5};
    assert_int_equal(tide_sample_choose((float[]){1, NAN, 0}, 3, &rule, 0.5, NULL), -1);
    assert_int_equal(tide_sample_choose((float[]){1, INFINITY, 0}, 3, &rule, 0.5, NULL), -1);
    float none[3] = {-INFINITY, -INFINITY, -INFINITY}, one[3] = {-INFINITY, 0, -INFINITY};
    assert_int_equal(tide_sample_choose(none, 3, &rule, 0.5, NULL), -1);
    rule = (struct tide_sample_rule){.temperature = 1, .top_p = 1};
    for (int i = 0; i < 100; i++)
        assert_int_equal(tide_sample_choose(one, 3, &rule, i / 100., NULL), 1);
}

static void rules_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const struct tide_sample_rule bad[] = {
        {.temperature = -1, .top_p = 1},       {.temperature = NAN, .top_p = 1},
        {.temperature = INFINITY, .top_p = 1}, {.temperature = 1, .top_p = 0},
        {.temperature = 1, .top_p = -0.1},     {.temperature = 1, .top_p = 1.1},
        {.temperature = 1, .top_p = NAN},      {.temperature = 1, .top_p = 1, .top_k = -1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tide_err err = {0};
        assert_int_equal(tide_sample_rule_check(&bad[i], &err), -1);
        assert_true(err.text[0]);
    }
    struct tide_sample_rule good = {.temperature = 0, .top_p = 1};
    assert_int_equal(tide_sample_rule_check(&good, NULL), 0);
}

/* ---- against a plain sort */

enum { MANY = 9001 };

static float many[MANY];
static int order[MANY];

static int by_likelihood(const void *a, const void *b)
{
    int i = *(const int *)a, j = *(const int *)b;
    return many[i] != many[j] ? (many[i] > many[j] ? -1 : 1) : (i > j) - (i < j);
}

/* How many are left, the likeliest first. */
static int64_t sorted_count(const struct tide_sample_rule *rule, double most)
{
    int64_t kept = rule->top_k && rule->top_k < MANY ? rule->top_k : MANY, fewest = 0;
    double all = 0, sum = 0;
    for (int i = 0; i < MANY; i++)
        order[i] = i;
    qsort(order, MANY, sizeof *order, by_likelihood);
    for (int64_t i = 0; i < kept; i++)
        all += exp(((double)many[order[i]] - most) / rule->temperature);
    while (fewest < kept && (fewest == 0 || sum < rule->top_p * all))
        sum += exp(((double)many[order[fewest++]] - most) / rule->temperature);
    return fewest;
}

/* Draws are at the middle of each token's share of the sum, taken in the order of tokens: each is drawn
 * once, with the logarithm of its share of all. Where shares are too small to hit, some are passed over. */
static void expect_as_sorted(const struct tide_sample_rule *rule)
{
    static bool kept[MANY];
    double most = -INFINITY, all = 0, left = 0, passed = 0;
    for (int i = 0; i < MANY; i++)
        most = fmax(most, (double)many[i]);
    for (int i = 0; i < MANY; i++)
        all += exp(((double)many[i] - most) / rule->temperature);
    int64_t count = sorted_count(rule, most);
    memset(kept, 0, sizeof kept);
    for (int64_t i = 0; i < count; i++) {
        kept[order[i]] = true;
        left += exp(((double)many[order[i]] - most) / rule->temperature);
    }
    for (int i = 0; i < MANY; i++) {
        double weight = kept[i] ? exp(((double)many[i] - most) / rule->temperature) : 0;
        float log_probability = NAN;
        if (weight > 1e-4 * left / (double)count && (is_long() || i % (is_slow() ? 241 : 7) == 0)) {
            int64_t token =
                tide_sample_choose(many, MANY, rule, (passed + weight / 2) / left, &log_probability);
            if (token != i)
                fail_msg("temperature %g, top-k %lld, top-p %g: %lld instead of %d", rule->temperature,
                         (long long)rule->top_k, rule->top_p, (long long)token, i);
            double expected = ((double)many[i] - most) / rule->temperature - log(all);
            assert_true(fabs((double)log_probability - expected) < 2e-6 * (1 + fabs(expected)));
        }
        passed += weight;
    }
}

static void what_is_left_is_what_a_sort_leaves(void **state)
{
    (void)state;
    static const struct tide_sample_rule rules[] = {
        {.temperature = 1, .top_p = 1},
        {.temperature = 0.7, .top_k = 50, .top_p = 1},
        {.temperature = 1.3, .top_k = 6000, .top_p = 1},
        {.temperature = 1, .top_p = 0.37},
        {.temperature = 2, .top_p = 0.95},
        {.temperature = 1, .top_k = 300, .top_p = 0.8},
    };
    for (int ties = 0; ties < 2; ties++) {
        for (int i = 0; i < MANY; i++) {
            double x = 8 * tide_random_unit(4, (uint64_t)i, 0) * tide_random_unit(5, (uint64_t)i, 0) - 3;
            many[i] = (float)(ties ? round(8 * x) / 8 : x);
        }
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            expect_as_sorted(&rules[i]);
    }
}

/* More tokens than sums are kept of at their usual length. */
static void a_huge_vocabulary_is_chosen_from(void **state)
{
    (void)state;
    enum { HUGE_COUNT = 3 << 20 };
    float *logits = calloc(HUGE_COUNT, sizeof *logits);
    struct tide_sample_rule rule = {.temperature = 1, .top_p = 1};
    assert_non_null(logits);
    for (int i = 0; i < 16; i++) {
        int64_t expected = (int64_t)((i + 0.5) / 16 * HUGE_COUNT);
        assert_true(llabs(tide_sample_choose(logits, HUGE_COUNT, &rule, (i + 0.5) / 16, NULL) - expected) <
                    2);
    }
    free(logits);
}

static void extremes_are_chosen_from(void **state)
{
    (void)state;
    float logits[5] = {-3e38F, 3e38F, -INFINITY, 0, 2.9e38F};
    struct tide_sample_rule rule = {.temperature = 1, .top_k = 3, .top_p = 0.9};
    assert_int_equal(tide_sample_choose(logits, 5, &rule, 0.99, NULL), 1);
    rule = (struct tide_sample_rule){.temperature = 1e30, .top_k = 4, .top_p = 0.999};
    assert_int_equal(tide_sample_choose(logits, 5, &rule, 0.5, NULL), 1);
    assert_int_equal(tide_sample_choose((float[]){7}, 1, &rule, 0.5, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_come_as_often_as_the_rule_says),
        cmocka_unit_test(seeds_draw_from_the_distribution),
        cmocka_unit_test(the_likeliest_of_many_are_found),
        cmocka_unit_test(what_is_no_number_is_not_chosen_from),
        cmocka_unit_test(rules_that_make_no_sense_are_refused),
        cmocka_unit_test(what_is_left_is_what_a_sort_leaves),
        cmocka_unit_test(a_huge_vocabulary_is_chosen_from),
        cmocka_unit_test(extremes_are_chosen_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
