/*
 * Every optimizer against its reference, and against itself: however a parameter is cut and however many
 * threads there are, every bit is the same. Weights in bf16: what is rounded at random is right on average.
 */
#include "optimizer_state.h"
#include "sanitized.h"
#include "rt/cpu/update.h"
#include "rt/optimizer.h"
#include "rt/cpu/rounding.h"
#include "rt/cpu/threads.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 88172645463325252U;

static float uniform(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (float)(seed >> 40) / (1 << 23) - 1;
}

/* ---- parameters */

static const struct shape {
    int64_t rows, columns;
} shapes[] = {{1, 1}, {1, 5}, {1, 4095}, {1, 40007}, {67, 97}, {33, 768}, {3000, 17}, {2, 5000}};
enum { SHAPES = sizeof shapes / sizeof *shapes, STEPS = 4 };

/* A parameter with all that is its own. */
struct owned {
    const struct tide_optimizer *optimizer;
    struct tide_trained trained;
    void *gradient;
    char *state;
    void *scratch;
    size_t state_bytes, weight_bytes;
    int64_t count;
};

static void *zeros(size_t bytes)
{
    void *made = aligned_alloc(TIDE_ALIGN, tide_aligned(bytes + 1));
    assert_non_null(made);
    return memset(made, 0, tide_aligned(bytes + 1));
}

static struct owned own(const struct tide_optimizer *optimizer, struct shape shape, enum tide_dtype dtype)
{
    struct owned o = {.optimizer = optimizer, .count = shape.rows * shape.columns};
    o.weight_bytes = (size_t)o.count * tide_dtype_bytes(dtype);
    o.state_bytes = bytes_of_state(optimizer, shape.rows, shape.columns);
    o.gradient = zeros(o.weight_bytes);
    o.state = zeros(o.state_bytes);
    o.scratch = zeros(tide_optimizer_scratch(optimizer, shape.rows, shape.columns));
    o.trained = (struct tide_trained){.rows = shape.rows,
                                      .columns = shape.columns,
                                      .dtype = dtype,
                                      .number = 3,
                                      .weight = zeros(o.weight_bytes),
                                      .gradient = o.gradient};
    place_state(optimizer, o.state, &o.trained);
    for (int64_t i = 0; i < o.count; i++)
        tide_number_set(o.trained.weight, dtype, i, uniform());
    return o;
}

static struct owned copy(const struct owned *from)
{
    struct shape shape = {from->trained.rows, from->trained.columns};
    struct owned o = own(from->optimizer, shape, from->trained.dtype);
    memcpy(o.trained.weight, from->trained.weight, o.weight_bytes);
    memcpy(o.state, from->state, o.state_bytes);
    memcpy(o.gradient, from->gradient, o.weight_bytes);
    return o;
}

static void disown(struct owned *o)
{
    free(o->trained.weight);
    free(o->gradient);
    free(o->state);
    free(o->scratch);
}

/* Numbers of several sizes, and some that are nothing. */
static void new_gradient(struct owned *o)
{
    for (int64_t i = 0; i < o->count; i++) {
        float x = uniform(), y = uniform();
        tide_number_set(o->gradient, o->trained.dtype, i,
                        y < -0.9F ? 0 : x * x * x * (y > 0.9F ? 16.0F : 0.25F));
    }
}

static struct tide_optimizer_step step_of(int64_t step)
{
    return (struct tide_optimizer_step){.rate = 0.0125F,
                                        .beta1 = 0.875F,
                                        .beta2 = 0.984375F,
                                        .epsilon = 1e-6F,
                                        .decay = 0.5F,
                                        .scale = 0.75F,
                                        .step = step,
                                        .seed = 17};
}

static void take_step(struct owned *o, int64_t step)
{
    struct tide_optimizer_step s = step_of(step);
    struct tide_factors f = tide_optimizer_factors(&s);
    tide_optimizer_update(o->optimizer, &o->trained, &f, o->scratch);
}

static void same_bits(const struct owned *a, const struct owned *b)
{
    assert_memory_equal(a->trained.weight, b->trained.weight, a->weight_bytes);
    assert_memory_equal(a->state, b->state, a->state_bytes);
}

/* ---- the reference */

/* A weight is the reference's but for three roundings of f32 by itself and a few by the largest step; in bf16
 * it is one of the two numbers between which that lies. */
static void weights_agree(const struct owned *o, const struct owned *before, const double *expected)
{
    double largest = 0;
    for (int64_t i = 0; i < o->count; i++)
        largest = fmax(largest, fabs(expected[i] - tide_number(before->trained.weight, o->trained.dtype, i)));
    for (int64_t i = 0; i < o->count; i++) {
        double was = tide_number(before->trained.weight, o->trained.dtype, i);
        double is = tide_number(o->trained.weight, o->trained.dtype, i);
        double bound = 0x1p-24 * (3 * fabs(was) + 8 * largest);
        if (o->trained.dtype == TIDE_BF16) {
            uint32_t cut = tide_float_bits((float)expected[i]) >> 16;
            bound += fabs((double)tide_from_bf16((tide_bf16)(cut + 1)) - tide_from_bf16((tide_bf16)cut));
        }
        if (!(fabs(is - expected[i]) <= bound))
            fail_msg("%s, number %d: %.9g became %.9g, not %.9g", o->optimizer->name, (int)i, was, is,
                     expected[i]);
    }
}

/* Where a number lies halfway between two codes, roundings choose: rarely, and one of the two. Gradients in
 * bf16 have eight bits: then a share a / b of the largest is exactly halfway, (128 + 9 k) / 1280, for some a
 * wherever b has a factor of five. */
static void codes_agree(const struct owned *o, const uint8_t *is, const uint8_t *expected, int64_t count)
{
    int64_t apart = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_true(abs(is[i] - expected[i]) <= 1);
        apart += is[i] != expected[i];
    }
    assert_true(apart <= count / (o->trained.dtype == TIDE_BF16 ? 250 : 1000));
}

/* Numbers of a state are the reference's but for six roundings of what they are sums of. */
static void states_agree(const struct owned *o, const struct owned *before, const struct owned *reference)
{
    struct tide_state_part parts[TIDE_STATE_PARTS];
    int count = tide_optimizer_parts(o->optimizer, o->trained.rows, o->trained.columns, parts);
    for (int k = 0; k < count; k++) {
        if (parts[k].dtype == TIDE_U8)
            codes_agree(o, o->trained.parts[k], reference->trained.parts[k], parts[k].count);
        const float *was = before->trained.parts[k], *is = o->trained.parts[k],
                    *expected = reference->trained.parts[k];
        for (int64_t i = 0; parts[k].dtype == TIDE_F32 && parts[k].name && i < parts[k].count; i++) {
            double terms = fabs(was[i]) + fabs(expected[i]);
            if (o->optimizer == &tide_optimizer_sgd) /* decay is one, too */
                terms += step_of(1).decay * fabs(tide_number(before->trained.weight, o->trained.dtype, i));
            if (!(fabs((double)is[i] - expected[i]) <= 6 * 0x1p-24 * terms))
                fail_msg("%s of %s, number %d: %.9g is not %.9g", parts[k].name, o->optimizer->name, (int)i,
                         (double)is[i], (double)expected[i]);
        }
    }
}

static void one_is_its_reference(const struct tide_optimizer *optimizer, struct shape shape,
                                 enum tide_dtype dtype, int steps)
{
    struct owned o = own(optimizer, shape, dtype);
    double *expected = zeros((size_t)o.count * sizeof *expected);
    for (int step = 1; step <= steps; step++) {
        struct tide_optimizer_step s = step_of(step);
        new_gradient(&o);
        struct owned before = copy(&o), reference = copy(&o);
        optimizer->reference(&reference.trained, &s, expected);
        take_step(&o, step);
        weights_agree(&o, &before, expected);
        states_agree(&o, &before, &reference);
        disown(&before);
        disown(&reference);
    }
    free(expected);
    disown(&o);
}

/* A reference takes a hundred times as long as what it is for: of large shapes two steps in one type. */
static void each_is_its_reference(void **state)
{
    (void)state;
    for (int k = 0; tide_optimizers[k]; k++)
        for (int i = 0; i < SHAPES; i++) {
            bool is_large = shapes[i].rows * shapes[i].columns > 10000;
            for (int dtype = TIDE_F32; dtype <= TIDE_BF16; dtype++)
                if (!is_large || (!is_slow() && dtype == i % 2))
                    one_is_its_reference(tide_optimizers[k], shapes[i], (enum tide_dtype)dtype,
                                         is_large || is_slow() ? 2 : STEPS);
        }
}

/* ---- cuts and threads */

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    for (int k = 0; tide_optimizers[k]; k++)
        for (int i = 0; i < SHAPES; i++)
            for (int half = 0; half < 2; half++) {
                struct owned one = own(tide_optimizers[k], shapes[i], half ? TIDE_BF16 : TIDE_F32);
                for (int step = 1; step <= 2; step++) {
                    new_gradient(&one);
                    struct owned before = copy(&one);
                    tide_threads_set(1);
                    take_step(&one, step);
                    for (int threads = 2; threads <= 5; threads++) {
                        struct owned other = copy(&before);
                        tide_threads_set(threads);
                        take_step(&other, step);
                        same_bits(&one, &other);
                        disown(&other);
                    }
                    disown(&before);
                }
                disown(&one);
            }
    tide_threads_set(2);
}

static void the_last_chunk_may_come_first(void **state)
{
    (void)state;
    struct tide_optimizer_step s = step_of(2);
    struct tide_factors f = tide_optimizer_factors(&s);
    for (int k = 0; tide_optimizers[k]; k++)
        for (int i = 0; i < SHAPES; i++)
            for (int half = 0; half < 2; half++) {
                struct owned whole = own(tide_optimizers[k], shapes[i], half ? TIDE_BF16 : TIDE_F32);
                new_gradient(&whole);
                take_step(&whole, 1);
                new_gradient(&whole);
                struct owned before = copy(&whole);
                take_step(&whole, 2);
                const struct tide_cpu_optimizer *optimizer = tide_cpu_optimizer(before.optimizer);
                if (optimizer->measure)
                    optimizer->measure(&before.trained, &f, before.scratch);
                for (int64_t chunk = before.count / TIDE_CHUNK; chunk >= 0; chunk--) {
                    int64_t left = before.count - chunk * TIDE_CHUNK;
                    optimizer->update(&before.trained, &f, chunk, left < TIDE_CHUNK ? left : TIDE_CHUNK);
                }
                same_bits(&whole, &before);
                disown(&before);
                disown(&whole);
            }
}

/* ---- what is kept */

static void parts_have_names_and_shapes(void **state)
{
    (void)state;
    for (int k = 0; tide_optimizers[k]; k++)
        for (int i = 0; i < SHAPES; i++) {
            struct tide_state_part parts[TIDE_STATE_PARTS];
            int count = tide_optimizer_parts(tide_optimizers[k], shapes[i].rows, shapes[i].columns, parts);
            for (int p = 0; p < count; p++) {
                if (parts[p].is_shaped)
                    assert_int_equal(parts[p].count, shapes[i].rows * shapes[i].columns);
                for (int q = 0; q < p; q++)
                    assert_true(!parts[p].name || !parts[q].name ||
                                strcmp(parts[p].name, parts[q].name) != 0);
            }
        }
}

static void optimizers_are_found_by_name(void **state)
{
    (void)state;
    for (int k = 0; tide_optimizers[k]; k++)
        assert_ptr_equal(tide_optimizer_find(tide_optimizers[k]->name), tide_optimizers[k]);
    assert_null(tide_optimizer_find("adam"));
}

/* ---- rounding at random */

/* Of a number at a share of the way from one bf16 to the next, that share of roundings goes up: within five
 * deviations of a fair draw, which chance exceeds once in two million. */
static void rounding_is_right_on_average(void **state)
{
    (void)state;
    enum { DRAWS = 1 << 18 };
    static const double shares[] = {0, 1.0 / 65536, 0.01, 0.25, 0.5, 0.9, 65535.0 / 65536};
    static const uint16_t numbers[] = {0x3f80, 0xbf80, 0x3dcd, 0x0001, 0x7f00, 0xc2f7};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
            uint32_t share = (uint32_t)lrint(shares[s] * 65536);
            float value = tide_bits_float((uint32_t)numbers[n] << 16 | share);
            double p = share / 65536.0;
            int64_t up = 0;
            for (int64_t i = 0; i < DRAWS; i++) {
                struct tide_rounding r = tide_rounding(5, n * 7 + s, i / TIDE_CHUNK);
                tide_bf16 rounded = tide_round(value, r, (uint32_t)(i % TIDE_CHUNK));
                assert_true(rounded == numbers[n] || rounded == numbers[n] + 1);
                up += rounded != numbers[n];
            }
            assert_true(fabs((double)up - DRAWS * p) <= 5 * sqrt(DRAWS * p * (1 - p)));
        }
}

/* Draws of neighbours, of the same place in another step, array or chunk, and of the same under another seed:
 * of two that have nothing to do with each other both go up a quarter of the time. */
static void draws_have_nothing_to_do_with_each_other(void **state)
{
    (void)state;
    enum { DRAWS = 1 << 18, KINDS = 5 };
    const float half = 1.00390625F; /* between 0x3f80 and 0x3f81 */
    int64_t both[KINDS] = {0};
    for (int64_t i = 0; i < DRAWS; i++) {
        uint32_t place = (uint32_t)(i % (TIDE_CHUNK - 1));
        int64_t chunk = i / (TIDE_CHUNK - 1);
        struct tide_rounding r = tide_rounding(9, 4, chunk);
        int up = tide_round(half, r, place) & 1;
        both[0] += up & tide_round(half, r, place + 1);
        both[1] += up & tide_round(half, tide_rounding(10, 4, chunk), place);
        both[2] += up & tide_round(half, tide_rounding(9, 5, chunk), place);
        both[3] += up & tide_round(half, tide_rounding(9, 4, chunk + 1000), place);
        both[4] += up & tide_round(half, r, place ^ 512);
    }
    for (int k = 0; k < KINDS; k++)
        assert_true(fabs(both[k] - DRAWS / 4.0) <= 5 * sqrt(DRAWS * 3.0 / 16));
}

/* A step of a thirty-second of the last place, a thousand times: to the nearest it would never move. */
static void small_steps_add_up(void **state)
{
    (void)state;
    enum { NUMBERS = 4096, TIMES = 1000 };
    struct owned o = own(&tide_optimizer_sgd, (struct shape){1, NUMBERS}, TIDE_BF16);
    struct tide_optimizer_step s = {.rate = 0x1p-12F, .scale = 1, .seed = 1};
    double sum = 0;
    for (int64_t i = 0; i < NUMBERS; i++) {
        tide_number_set(o.trained.weight, TIDE_BF16, i, 1);
        tide_number_set(o.gradient, TIDE_BF16, i, -1);
    }
    for (s.step = 1; s.step <= TIMES; s.step++) {
        struct tide_factors f = tide_optimizer_factors(&s);
        tide_optimizer_update(o.optimizer, &o.trained, &f, o.scratch);
    }
    for (int64_t i = 0; i < NUMBERS; i++)
        sum += tide_number(o.trained.weight, TIDE_BF16, i);
    /* A step of p = 1/32 places has the variance p (1 - p). */
    double deviation = 0x1p-7 * sqrt(TIMES * (1.0 / 32) * (31.0 / 32) / NUMBERS);
    assert_true(fabs(sum / NUMBERS - (1 + TIMES * 0x1p-12)) <= 5 * deviation);
    disown(&o);
}

/* The same step again draws the same; another step, parameter or seed something else. */
static void what_is_drawn_depends_on_seed_step_and_parameter(void **state)
{
    (void)state;
    struct owned first = own(&tide_optimizer_sgd, (struct shape){40, 100}, TIDE_BF16);
    struct tide_optimizer_step s = step_of(1);
    new_gradient(&first);
    struct owned again[4];
    for (int i = 0; i < 4; i++)
        again[i] = copy(&first);
    take_step(&first, 1);
    for (int i = 0; i < 4; i++) {
        struct tide_optimizer_step other = s;
        other.step += i == 1;
        other.seed += i == 2;
        again[i].trained.number += i == 3;
        struct tide_factors f = tide_optimizer_factors(&other);
        tide_optimizer_update(again[i].optimizer, &again[i].trained, &f, again[i].scratch);
        assert_int_equal(memcmp(first.trained.weight, again[i].trained.weight, first.weight_bytes) != 0,
                         i > 0);
    }
    for (int i = 0; i < 4; i++)
        disown(&again[i]);
    disown(&first);
}

/* ---- the update and the norm of gradients by themselves */

enum { COUNT = 40007 };

/* m, v and weight each have one rounding of their own a step, and the quotient five: eight of them, by the
 * largest weight, is the bound after three steps. */
static void the_update_is_adamws(void **state)
{
    (void)state;
    static float weight[COUNT], m[COUNT], v[COUNT], gradient[COUNT];
    static double weight0[COUNT], m0[COUNT], v0[COUNT];
    struct tide_optimizer_step how = {
        .rate = 0.125F, .beta1 = 0.75F, .beta2 = 0.9375F, .epsilon = 0.0078125F};
    struct tide_trained all = {
        .rows = 1, .columns = COUNT, .weight = weight, .parts = {m, v}, .gradient = gradient};
    how.decay = 0.5F;
    how.scale = 0.25F;
    tide_threads_set(2);
    for (int i = 0; i < COUNT; i++)
        weight0[i] = weight[i] = uniform();
    for (how.step = 1; how.step <= 3; how.step++) {
        for (int i = 0; i < COUNT; i++)
            gradient[i] = uniform();
        struct tide_factors factors = tide_optimizer_factors(&how);
        tide_optimizer_update(&tide_optimizer_adamw, &all, &factors, NULL);
        for (int i = 0; i < COUNT; i++) {
            double g = 0.25 * gradient[i];
            m0[i] = 0.75 * m0[i] + 0.25 * g;
            v0[i] = 0.9375 * v0[i] + 0.0625 * g * g;
            double steep = sqrt(v0[i] / (1 - pow(0.9375, (double)how.step))) + 0.0078125;
            weight0[i] -= 0.125 * (0.5 * weight0[i] + m0[i] / (1 - pow(0.75, (double)how.step)) / steep);
            if (!(fabs(weight[i] - weight0[i]) <= 8.0 / (1 << 24)))
                fail_msg("step %d, number %d: %.9g is not %.9g", (int)how.step, i, (double)weight[i],
                         weight0[i]);
        }
    }
}

/* More numbers than are summed at a time. */
static void squares_are_summed_to_the_last(void **state)
{
    (void)state;
    int64_t count = (256LL << 15) + (5 << 15) + 77;
    float *x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    double expected = 0; /* of whole numbers: exact in any order */
    for (int64_t i = 0; i < count; i++) {
        x[i] = i == count - 1 ? 1000 : (float)(i % 3);
        expected += (double)x[i] * x[i];
    }
    for (int threads = 1; threads <= 3; threads++) {
        tide_threads_set(threads);
        assert_true(tide_update_squares(x, TIDE_F32, count) == expected);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_its_reference),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(the_last_chunk_may_come_first),
        cmocka_unit_test(parts_have_names_and_shapes),
        cmocka_unit_test(optimizers_are_found_by_name),
        cmocka_unit_test(rounding_is_right_on_average),
        cmocka_unit_test(draws_have_nothing_to_do_with_each_other),
        cmocka_unit_test(small_steps_add_up),
        cmocka_unit_test(what_is_drawn_depends_on_seed_step_and_parameter),
        cmocka_unit_test(the_update_is_adamws),
        cmocka_unit_test(squares_are_summed_to_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
