#include "rt/cpu/choose.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/rows.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

int tide_sample_rule_check(const struct tide_sample_rule *rule, struct tide_err *err)
{
    if (!(rule->temperature >= 0 && isfinite(rule->temperature)))
        return tide_err_set(err, "the temperature must be 0 (always the likeliest) or more");
    if (rule->top_k < 0)
        return tide_err_set(err, "top-k must be 0 (the whole vocabulary) or more");
    if (!(rule->top_p > 0 && rule->top_p <= 1))
        return tide_err_set(err, "top-p must be more than 0 and at most 1 (the whole vocabulary)");
    return 0;
}

/* ---- weights */

/* At most STRETCHES sums are kept, each over at least STRETCH tokens. */
enum { STRETCHES = 512, STRETCH = 2048, LANES = 64 };

/* The tokens that may be chosen: up to `last`, those whose logit is at least `least`; after it, those above
 * `least`. So of equal logits the lower tokens are kept. */
struct kept {
    float least;
    int64_t last;
};

struct choice {
    const float *logits;
    int64_t count, stretch;
    float most, inverse;    /* the largest logit; 1 / temperature */
    double sums[STRETCHES]; /* of the weights of kept tokens */
};

/* 1 for the largest logit, 0 below `least`, NaN for NaN. */
TIDE_INLINE float weight_of(float x, float most, float inverse, float least)
{
    float exponent = (x - most) * inverse, weight = tide_exp(exponent);
    return ((x < least) | (exponent < -87)) ? 0 : weight;
}

TIDE_KERNEL(float, weigh, (const float *x, int64_t count, float most, float inverse, float least),
            (x, count, most, inverse, least))
{
    float lanes[LANES] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES)
        for (int k = 0; k < LANES; k++)
            lanes[k] += weight_of(x[j + k], most, inverse, least);
    for (; j < count; j++)
        sum += weight_of(x[j], most, inverse, least);
    for (int half = LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            lanes[k] += lanes[k + half];
    return sum + lanes[0];
}

static float above(const struct kept *kept)
{
    return nextafterf(kept->least, INFINITY);
}

/* The sum of the weights of all kept tokens. */
static double sum_up(struct choice *c, const struct kept *kept)
{
    double total = 0;
    for (int64_t from = 0, i = 0; from < c->count; from += c->stretch, i++) {
        int64_t to = from + c->stretch < c->count ? from + c->stretch : c->count,
                split = kept->last + 1 < from ? from
                        : kept->last + 1 > to ? to
                                              : kept->last + 1;
        c->sums[i] = weigh(c->logits + from, split - from, c->most, c->inverse, kept->least);
        if (split < to)
            c->sums[i] += weigh(c->logits + split, to - split, c->most, c->inverse, above(kept));
        total += c->sums[i];
    }
    return total;
}

/* Returns the first token at which the running sum of weights exceeds `target`; if rounding allows none, the
 * last with a weight. sum_up() must have run for the same tokens. */
static int64_t draw_from(const struct choice *c, const struct kept *kept, double target)
{
    int64_t found = 0, chosen = -1;
    double passed = 0;
    for (int64_t i = 0; i * c->stretch < c->count; i++) {
        if (!(c->sums[i] > 0))
            continue;
        passed += found == i ? 0 : c->sums[found];
        found = i;
        if (target < passed + c->sums[i])
            break;
    }
    for (int64_t i = found * c->stretch; i < c->count && i < (found + 1) * c->stretch; i++) {
        float least = i <= kept->last ? kept->least : above(kept),
              weight = weight_of(c->logits[i], c->most, c->inverse, least);
        if (!(weight > 0))
            continue;
        chosen = i;
        passed += weight;
        if (target < passed)
            break;
    }
    return chosen;
}

/* ---- selection */

/* At most this many are copied out and searched apart. */
enum { FEW = 4096 };

TIDE_KERNEL(int64_t, count_from, (const float *x, int64_t count, float least), (x, count, least))
{
    int32_t lanes[LANES] = {0};
    int64_t j = 0, sum = 0;
    for (; j + LANES <= count; j += LANES)
        for (int k = 0; k < LANES; k++)
            lanes[k] += x[j + k] >= least;
    for (; j < count; j++)
        sum += x[j] >= least;
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

/* A search in some logits. A logit amounts to 1 or, by_weight, to its weight. before: the amount above
 * them. */
struct search {
    const struct choice *choice;
    bool by_weight;
    const float *logits;
    int64_t count;
    double before;
    float few[FEW];
};

static double amount_from(const struct search *s, float least)
{
    double sum = s->before;
    if (!s->by_weight)
        return sum + (double)count_from(s->logits, s->count, least);
    for (int64_t i = 0; i < s->count; i += STRETCH)
        sum += weigh(s->logits + i, s->count - i < STRETCH ? s->count - i : STRETCH, s->choice->most,
                     s->choice->inverse, least);
    return sum;
}

/* Continues with those in [low, high), if they are few. */
static void narrow(struct search *s, float low, float high)
{
    int64_t count = 0;
    if (s->logits == s->few ||
        count_from(s->logits, s->count, low) - count_from(s->logits, s->count, high) > FEW)
        return;
    s->before = amount_from(s, high);
    for (int64_t i = 0; i < s->count; i++)
        if (s->logits[i] >= low && s->logits[i] < high)
            s->few[count++] = s->logits[i];
    s->logits = s->few;
    s->count = count;
}

/* Selects the fewest of the likeliest tokens that together amount to `target`. Those from `enough` on do,
 * unless it is -INFINITY. */
static struct kept select_likeliest(const struct choice *c, double target, bool by_weight, float enough)
{
    struct search s = {
        .choice = c, .by_weight = by_weight, .logits = c->logits, .count = c->count, .before = 0};
    float low = enough > -INFINITY ? enough : c->most, high = nextafterf(c->most, INFINITY),
          step = 1 / c->inverse;
    for (; low > -INFINITY && amount_from(&s, low) < target; step *= 2) {
        high = low;
        low = c->most - step;
    }
    for (;;) {
        float middle = low / 2 + high / 2;
        narrow(&s, low, high);
        if (!(middle > low && middle < high))
            break;
        if (amount_from(&s, middle) < target)
            high = middle;
        else
            low = middle;
    }
    /* No float lies between low and high. */
    struct kept kept = {.least = low, .last = -1};
    double amount = amount_from(&s, high),
           each = by_weight ? weight_of(low, c->most, c->inverse, -INFINITY) : 1;
    for (int64_t i = 0; i < c->count && (kept.last < 0 || amount < target); i++)
        if (c->logits[i] == low) {
            kept.last = i;
            amount += each;
        }
    return kept;
}

static int64_t first_of(const float *logits, float value)
{
    int64_t i = 0;
    while (logits[i] != value)
        i++;
    return i;
}

int64_t tide_sample_choose(const float *logits, int64_t count, const struct tide_sample_rule *rule,
                           double draw, float *ret_log_probability)
{
    struct choice c = {.logits = logits, .count = count, .most = tide_rows_largest(logits, count)};
    struct kept kept = {.least = -INFINITY, .last = count - 1};
    int64_t each = (count + STRETCHES - 1) / STRETCHES;
    c.stretch = each < STRETCH ? STRETCH : each;
    c.inverse = rule->temperature > 0 ? (float)fmin(fmax(1 / rule->temperature, FLT_MIN), FLT_MAX) : 1;
    double all = sum_up(&c, &kept), weight = all;
    if (!isfinite(c.most) || !isfinite(all))
        return -1;
    int64_t chosen;
    if (rule->temperature == 0 || rule->top_k == 1)
        chosen = first_of(logits, c.most);
    else {
        if (rule->top_k && rule->top_k < count) {
            kept = select_likeliest(&c, (double)rule->top_k, false, kept.least);
            weight = sum_up(&c, &kept);
        }
        if (rule->top_p < 1) {
            kept = select_likeliest(&c, rule->top_p * weight, true, kept.least);
            weight = sum_up(&c, &kept);
        }
        chosen = draw_from(&c, &kept, draw * weight);
    }
    if (ret_log_probability)
        *ret_log_probability = (float)((double)((logits[chosen] - c.most) * c.inverse) - log(all));
    return chosen;
}
