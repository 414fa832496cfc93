/*
 * test_train_policy.c - GRPO's arithmetic against a plain reference in f64: losses written as sums over
 * completions and tokens, as the papers have them, and slopes as differences of those.
 *
 * How far ours may be apart: 2^-24 is one rounding, 6e-8, and a loss of a token has a dozen, which mostly
 * cancel: 5e-7, of the tokens' losses without their signs, and of the largest slope. A central difference in
 * f64 over 2e-5 is wrong by 1e-10. (Seen: 5.6e-8 and 1.5e-7.)
 */
#include "train/policy.h"
#include "base/random.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 4, GROUPS = 2, COUNT = GROUP * GROUPS, LONGEST = 7, PROMPT = 3, ROWS = PROMPT + LONGEST - 1 };

static const double loss_bound = 5e-7, slope_bound = 5e-7;

/* ---- a generation */

/* One completion is empty, one has one token, one is as long as it may be. */
static const int64_t lengths[COUNT] = {LONGEST, 4, 0, 2, 1, 5, 3, 6};

struct generation {
    struct tide_policy_rule rule;
    struct tide_policy_sequence sequences[COUNT];
    int32_t tokens[COUNT][PROMPT + LONGEST];
    float new[COUNT][LONGEST], old[COUNT][LONGEST], reference[COUNT][LONGEST];
    int64_t epoch, micro_batch;
};

static double drawn(uint64_t what, uint64_t which)
{
    return tide_random_unit(7, what, which);
}

/* Old log-probabilities are as far from new ones as +-0.6, so that ratios go from 0.55 to 1.8. */
static void generate(struct generation *g, const struct tide_policy_rule *rule)
{
    *g = (struct generation){.rule = *rule, .epoch = 1, .micro_batch = 3};
    g->rule.group = GROUP;
    g->rule.new_tokens = LONGEST + 2;
    for (uint64_t i = 0; i < COUNT; i++) {
        int64_t prompt = 1 + (int64_t)i % PROMPT;
        g->sequences[i] = (struct tide_policy_sequence){.tokens = g->tokens[i],
                                                        .prompt = prompt,
                                                        .completion = lengths[i],
                                                        .advantage = (float)(3 * drawn(1, i) - 1.5),
                                                        .old_log = g->old[i],
                                                        .reference_log = g->reference[i]};
        for (uint64_t t = 0; t < PROMPT + LONGEST; t++)
            g->tokens[i][t] = (int32_t)(100 * i + t);
        for (uint64_t t = 0; t < LONGEST; t++) {
            g->new[i][t] = (float)(-4 * drawn(2, i * LONGEST + t) - 0.05);
            g->old[i][t] = (float)(g->new[i][t] + 1.2 * drawn(3, i * LONGEST + t) - 0.6);
            g->reference[i][t] = (float)(g->new[i][t] + 2 * drawn(4, i * LONGEST + t) - 1);
        }
    }
    g->sequences[5].advantage = 0;
}

/* ---- what is meant */

static double token_loss(const struct generation *g, int i, int64_t t, double new)
{
    const struct tide_policy_rule *rule = &g->rule;
    double advantage = g->sequences[i].advantage;
    /* On policy what was old is the number that `new` had, and stays it when that is moved. */
    double old = g->epoch ? g->old[i][t] : g->new[i][t], ratio = exp(new - old);
    double clipped = fmin(fmax(ratio, 1 - rule->epsilon), 1 + rule->epsilon_high);
    double d = g->reference[i][t] - new, kl = exp(d) - d - 1;
    return -fmin(ratio * advantage, clipped * advantage) + rule->beta * kl * (rule->plain_kl ? 1 : ratio);
}

static double of_completion(const struct generation *g, int i, double sign(double))
{
    double sum = 0;
    for (int64_t t = 0; t < lengths[i]; t++)
        sum += sign(token_loss(g, i, t, g->new[i][t]));
    return sum;
}

static double as_it_is(double x)
{
    return x;
}

/* TRL's four ways to sum up, by micro-batches, whose mean is the update's. */
static double loss_meant(const struct generation *g, double sign(double))
{
    int64_t micro_batches = (COUNT + g->micro_batch - 1) / g->micro_batch;
    double all = 0, tokens = 0;
    for (int i = 0; i < COUNT; i++)
        tokens += (double)lengths[i];
    for (int64_t m = 0; m < micro_batches; m++) {
        double sum = 0, here = 0;
        for (int i = (int)(m * g->micro_batch); i < (m + 1) * g->micro_batch && i < COUNT; i++) {
            double of_one = of_completion(g, i, sign);
            sum += g->rule.kind == TIDE_POLICY_GRPO ? of_one / fmax((double)lengths[i], 1) : of_one;
            here += (double)lengths[i];
        }
        all += g->rule.kind == TIDE_POLICY_GRPO      ? sum / COUNT
               : g->rule.kind == TIDE_POLICY_BNPO    ? sum / fmax(here, 1) / (double)micro_batches
               : g->rule.kind == TIDE_POLICY_DR_GRPO ? sum / (COUNT * (double)g->rule.new_tokens)
                                                     : sum / tokens;
    }
    return all;
}

/* ---- what we have */

struct batch {
    struct tide_policy_batch to;
    int32_t tokens[COUNT * ROWS], targets[COUNT * ROWS], positions[COUNT * ROWS], lengths[COUNT];
    float inputs[TIDE_POLICY_INPUTS][COUNT * ROWS], constants[TIDE_POLICY_CONSTANTS];
    float log_probabilities[COUNT * ROWS]; /* as the head would give them: 0 where there is no target */
};

/* Whatever was there before. */
static void fill(struct batch *b, struct generation *g, int64_t first)
{
    int64_t count = COUNT - first < g->micro_batch ? COUNT - first : g->micro_batch;
    memset(b, 0x7f, sizeof *b);
    b->to = (struct tide_policy_batch){.sequences = g->micro_batch,
                                       .rows = ROWS,
                                       .lengths = b->lengths,
                                       .positions = b->positions,
                                       .tokens = b->tokens,
                                       .targets = b->targets,
                                       .constants = b->constants};
    for (int i = 0; i < TIDE_POLICY_INPUTS; i++)
        b->to.inputs[i] = b->inputs[i];
    tide_policy_fill(&b->to, &g->rule, g->sequences + first, count, g->epoch);
    memset(b->log_probabilities, 0, sizeof b->log_probabilities);
    for (int64_t i = 0, row = 0; i < count; row += b->lengths[i++])
        for (int64_t t = 0; t < lengths[first + i]; t++)
            b->log_probabilities[row + g->sequences[first + i].prompt - 1 + t] = g->new[first + i][t];
}

/* Whose a row is, of those in the batch; its sequences, if it is nobody's. */
static int64_t owner_of(const struct batch *b, int64_t row)
{
    int64_t i = 0;
    while (i < b->to.sequences && row >= b->lengths[i])
        row -= b->lengths[i++];
    return i;
}

static float loss_of_row(const struct batch *b, int64_t row, float *ret_slope)
{
    float inputs[TIDE_POLICY_INPUTS];
    for (int i = 0; i < TIDE_POLICY_INPUTS; i++)
        inputs[i] = b->inputs[i][row];
    return tide_policy_loss.loss(b->log_probabilities[row], inputs, b->constants, ret_slope);
}

/* The update's loss, its slopes by each token's log-probability, and the report. */
static double loss_had(struct generation *g, float slopes[COUNT][LONGEST], struct tide_policy_sums *sums)
{
    static struct batch b;
    int64_t micro_batches = (COUNT + g->micro_batch - 1) / g->micro_batch;
    double all = 0;
    *sums = (struct tide_policy_sums){0};
    tide_policy_weigh(&g->rule, g->sequences, COUNT, g->micro_batch);
    for (int64_t first = 0; first < COUNT; first += g->micro_batch) {
        fill(&b, g, first);
        for (int64_t row = 0; row < g->micro_batch * ROWS; row++) {
            float slope;
            int64_t i = first + owner_of(&b, row);
            if (b.targets[row] < 0)
                continue;
            all += loss_of_row(&b, row, &slope) / (double)micro_batches;
            slopes[i][b.positions[row] + 1 - g->sequences[i].prompt] = slope / (float)micro_batches;
        }
        tide_policy_count(&b.to, b.log_probabilities, sums);
    }
    return all;
}

/* ---- tests */

/* Every kind of loss, on policy and off, with and without a KL term of either form. */
static void for_every_rule(void compare(struct generation *g))
{
    static const struct {
        double epsilon, epsilon_high, beta;
        bool plain_kl;
    } tried[] = {{.2, .2, 0, false}, {.2, .28, .04, false}, {.1, .4, .3, true}, {.01, .02, 1, false}};
    for (int kind = TIDE_POLICY_GRPO; kind <= (int)TIDE_POLICY_DAPO; kind++)
        for (size_t k = 0; k < sizeof tried / sizeof tried[0]; k++)
            for (int64_t epoch = 0; epoch < 2; epoch++)
                for (int64_t micro_batch = 1; micro_batch <= COUNT; micro_batch += micro_batch < 3 ? 2 : 5) {
                    struct tide_policy_rule rule = tide_policy_default;
                    struct generation g;
                    rule.kind = kind;
                    rule.epsilon = tried[k].epsilon;
                    rule.epsilon_high = tried[k].epsilon_high;
                    rule.beta = tried[k].beta;
                    rule.plain_kl = tried[k].plain_kl;
                    generate(&g, &rule);
                    g.epoch = epoch;
                    g.micro_batch = micro_batch;
                    compare(&g);
                }
}

static void compare_loss(struct generation *g)
{
    float slopes[COUNT][LONGEST];
    struct tide_policy_sums sums;
    double ours = loss_had(g, slopes, &sums), meant = loss_meant(g, as_it_is), by = loss_meant(g, fabs);
    if (!(fabs(ours - meant) <= loss_bound * by))
        fail_msg("%s, epoch %lld, %lld at a time: %.9g is not %.9g: off by %g",
                 tide_policy_kinds[g->rule.kind], (long long)g->epoch, (long long)g->micro_batch, ours, meant,
                 fabs(ours - meant) / by);
}

static void the_loss_is_that_of_the_papers(void **state)
{
    (void)state;
    for_every_rule(compare_loss);
}

/* Where the reference bends, both sides differ; no drawn ratio is that near to it. */
static void compare_slopes(struct generation *g)
{
    static const double step = 1e-5;
    float slopes[COUNT][LONGEST] = {{0}};
    struct tide_policy_sums sums;
    double most = 0, meant[COUNT][LONGEST];
    loss_had(g, slopes, &sums);
    for (int i = 0; i < COUNT; i++)
        for (int64_t t = 0; t < lengths[i]; t++) {
            double new = g->new[i][t], share = g->sequences[i].weight;
            share /= (double)((COUNT + g->micro_batch - 1) / g->micro_batch);
            meant[i][t] =
                share * (token_loss(g, i, t, new + step) - token_loss(g, i, t, new - step)) / (2 * step);
            most = fmax(most, fabs(meant[i][t]));
        }
    for (int i = 0; i < COUNT; i++)
        for (int64_t t = 0; t < lengths[i]; t++)
            if (!(fabs(slopes[i][t] - meant[i][t]) <= slope_bound * most))
                fail_msg("%s, epoch %lld: a slope of %.9g is not %.9g: off by %g",
                         tide_policy_kinds[g->rule.kind], (long long)g->epoch, slopes[i][t], meant[i][t],
                         fabs(slopes[i][t] - meant[i][t]) / most);
}

static void slopes_are_the_losss_differences(void **state)
{
    (void)state;
    for_every_rule(compare_slopes);
}

static float slope_at(float ratio, float advantage)
{
    struct batch b;
    struct generation g;
    float slope;
    generate(&g, &tide_policy_default);
    g.rule.epsilon_high = 0.5;
    g.sequences[0].advantage = advantage;
    g.sequences[0].weight = 1;
    g.new[0][0] = g.old[0][0] + logf(ratio);
    fill(&b, &g, 0);
    loss_of_row(&b, g.sequences[0].prompt - 1, &slope);
    return slope;
}

/* Beyond a bound there is nothing to gain any more; back from it there is. */
static void a_clipped_token_has_no_slope_and_one_that_can_come_back_has(void **state)
{
    (void)state;
    assert_float_equal(slope_at(1.6F, 2), 0, 0);
    assert_float_equal(slope_at(1.4F, 2), -2.8F, 1e-5F);
    assert_float_equal(slope_at(0.5F, 2), -1.0F, 1e-5F);
    assert_float_equal(slope_at(0.5F, -2), 0, 0);
    assert_float_equal(slope_at(0.9F, -2), 1.8F, 1e-5F);
    assert_float_equal(slope_at(1.6F, -2), 3.2F, 1e-5F);
}

static void the_report_counts_what_trl_logs(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct tide_policy_rule rule = tide_policy_default;
        struct generation g;
        struct tide_policy_sums sums;
        float slopes[COUNT][LONGEST];
        double kl = 0, low = 0, high = 0, tokens = 0;
        rule.beta = 0.1;
        rule.epsilon_high = 0.3;
        rule.plain_kl = plain;
        generate(&g, &rule);
        loss_had(&g, slopes, &sums);
        for (int i = 0; i < COUNT; i++)
            for (int64_t t = 0; t < lengths[i]; t++) {
                double ratio = exp((double)g.new[i][t] - g.old[i][t]),
                       d = (double)g.reference[i][t] - g.new[i][t];
                kl += (exp(d) - d - 1) * (plain ? 1 : ratio);
                low += ratio < 0.8 && g.sequences[i].advantage < 0;
                high += ratio > 1.3 && g.sequences[i].advantage > 0;
                tokens++;
            }
        assert_true(low > 0 && high > 0);
        assert_int_equal(sums.tokens, tokens);
        assert_float_equal(sums.clipped_low, low, 0);
        assert_float_equal(sums.clipped_high, high, 0);
        assert_true(fabs(sums.kl - kl) < loss_bound * kl);
    }
}

/* In the first epoch old numbers are not read: no pass is needed to have them. */
static void on_policy_nothing_is_clipped_and_old_numbers_are_not_read(void **state)
{
    (void)state;
    struct generation g;
    struct tide_policy_sums sums;
    float slopes[COUNT][LONGEST], others[COUNT][LONGEST];
    generate(&g, &tide_policy_default);
    g.epoch = 0;
    double loss = loss_had(&g, slopes, &sums);
    assert_float_equal(sums.clipped_low + sums.clipped_high, 0, 0);
    for (int i = 0; i < COUNT; i++)
        g.sequences[i].old_log = NULL;
    assert_float_equal(loss_had(&g, others, &sums), loss, 0);
    for (int i = 0; i < COUNT; i++)
        for (int64_t t = 0; t < lengths[i]; t++)
            assert_float_equal(others[i][t], slopes[i][t], 0);
}

/* Log-probabilities of a first epoch, kept, are the old ones of the next: of an unchanged model the ratio is
 * 1, and the loss the same. */
static void what_the_first_epoch_says_is_old_in_the_second(void **state)
{
    (void)state;
    struct generation g;
    struct tide_policy_rule rule = tide_policy_default;
    struct tide_policy_sums sums;
    struct batch b;
    float slopes[COUNT][LONGEST];
    rule.beta = 0.2;
    generate(&g, &rule);
    g.epoch = 0;
    double first = loss_had(&g, slopes, &sums);
    for (int64_t i = 0; i < COUNT; i += g.micro_batch) {
        fill(&b, &g, i);
        int64_t count = COUNT - i < g.micro_batch ? COUNT - i : g.micro_batch;
        tide_policy_take(g.sequences + i, count, b.log_probabilities, false);
        tide_policy_take(g.sequences + i, count, b.log_probabilities, true);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_memory_equal(g.old[i], g.new[i], (size_t)lengths[i] * sizeof(float));
        assert_memory_equal(g.reference[i], g.new[i], (size_t)lengths[i] * sizeof(float));
    }
    g.epoch = 1;
    double second = loss_had(&g, slopes, &sums);
    assert_true(first > second); /* less the KL to what is now the reference */
    assert_float_equal(sums.kl, 0, 0);
    assert_float_equal(sums.clipped_low + sums.clipped_high, 0, 0);
}

/* Row r of a sequence reads token r and says token r + 1, if that is the completion's. What is not there
 * takes no row. */
static void only_a_completions_tokens_are_targets(void **state)
{
    (void)state;
    struct generation g;
    struct batch b;
    generate(&g, &tide_policy_default);
    for (int64_t first = 0; first < COUNT; first += g.micro_batch) {
        fill(&b, &g, first);
        for (int64_t row = 0; row < g.micro_batch * ROWS; row++) {
            int64_t i = owner_of(&b, row), t = b.positions[row];
            const struct tide_policy_sequence *s = i < b.to.sequences ? &g.sequences[first + i] : NULL;
            bool says = s && t + 1 >= s->prompt && t + 1 < s->prompt + s->completion;
            assert_int_equal(t, s && row > 0 && owner_of(&b, row - 1) == i ? b.positions[row - 1] + 1 : 0);
            assert_int_equal(b.tokens[row], s ? s->tokens[t] : 0);
            assert_int_equal(b.targets[row], says ? s->tokens[t + 1] : -1);
            assert_float_equal(b.inputs[TIDE_POLICY_ADVANTAGE][row], says ? s->advantage : 0, 0);
        }
        for (int64_t i = 0; i < b.to.sequences && first + i < COUNT; i++)
            assert_int_equal(b.lengths[i],
                             fmax(1, (double)(g.sequences[first + i].prompt + lengths[first + i] - 1)));
    }
}

/* Nothing is written to, and nothing divides by zero. */
static void completions_that_are_all_empty_have_no_loss(void **state)
{
    (void)state;
    for (int kind = TIDE_POLICY_GRPO; kind <= (int)TIDE_POLICY_DAPO; kind++) {
        struct generation g;
        struct batch b;
        struct tide_policy_sums sums = {0};
        generate(&g, &tide_policy_default);
        g.rule.kind = kind;
        for (int i = 0; i < COUNT; i++)
            g.sequences[i].completion = 0;
        tide_policy_weigh(&g.rule, g.sequences, COUNT, g.micro_batch);
        fill(&b, &g, 0);
        tide_policy_count(&b.to, b.log_probabilities, &sums);
        assert_int_equal(sums.tokens, 0);
        for (int i = 0; i < COUNT; i++)
            assert_float_equal(g.sequences[i].weight, 0, 0);
        for (int64_t row = 0; row < g.micro_batch * ROWS; row++)
            assert_int_equal(b.targets[row], -1);
    }
}

/* ---- rewards */

static const double rewards[COUNT] = {1, 0, 0.5, 0.25, 0.1, 0.1, 0.1, 0.1};

/* Of the first group: mean 0.4375, deviation (by n - 1) 0.42696; of all: 0.26875 and 0.33267. */
static void advantages_are_trls(void **state)
{
    (void)state;
    static const double spreads[] = {0.42695628191498325, 0.33267047187441035, 1 - 1e-4};
    for (int scale = TIDE_SCALE_GROUP; scale <= (int)TIDE_SCALE_NONE; scale++) {
        struct tide_policy_rule rule = tide_policy_default;
        struct tide_policy_rewards of_all;
        float advantages[COUNT];
        rule.group = GROUP;
        rule.scale_rewards = scale;
        tide_policy_advantages(&rule, rewards, GROUPS, advantages, &of_all);
        assert_true(fabs(of_all.mean - 0.26875) < 1e-12);
        assert_true(fabs(of_all.spread - spreads[TIDE_SCALE_BATCH]) < 1e-9);
        assert_float_equal(of_all.equal_share, 0.5, 0);
        for (int i = 0; i < GROUP; i++) {
            assert_true(fabs(advantages[i] - (rewards[i] - 0.4375) / (spreads[scale] + 1e-4)) < 1e-6);
            assert_float_equal(advantages[GROUP + i], 0, 0);
        }
    }
}

static void a_rule_that_cannot_be_is_refused_in_a_sentence(void **state)
{
    (void)state;
    struct tide_policy_rule rules[9];
    struct tide_err err;
    for (int i = 0; i < 9; i++)
        rules[i] = tide_policy_default;
    assert_int_equal(tide_policy_rule_check(&rules[0], &err), 0);
    rules[0].group = 1;
    rules[1].new_tokens = 0;
    rules[2].epochs = 0;
    rules[3].temperature = 0;
    rules[4].temperature = (double)INFINITY;
    rules[5].epsilon = 1.5;
    rules[6].epsilon_high = -0.1;
    rules[7].beta = (double)NAN;
    rules[8].beta = -1;
    for (int i = 0; i < 9; i++) {
        err.text[0] = '\0';
        assert_int_equal(tide_policy_rule_check(&rules[i], &err), -1);
        assert_true(strlen(err.text) > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_that_of_the_papers),
        cmocka_unit_test(slopes_are_the_losss_differences),
        cmocka_unit_test(a_clipped_token_has_no_slope_and_one_that_can_come_back_has),
        cmocka_unit_test(the_report_counts_what_trl_logs),
        cmocka_unit_test(on_policy_nothing_is_clipped_and_old_numbers_are_not_read),
        cmocka_unit_test(what_the_first_epoch_says_is_old_in_the_second),
        cmocka_unit_test(only_a_completions_tokens_are_targets),
        cmocka_unit_test(completions_that_are_all_empty_have_no_loss),
        cmocka_unit_test(advantages_are_trls),
        cmocka_unit_test(a_rule_that_cannot_be_is_refused_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
