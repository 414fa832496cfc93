/*
 * test_rt_optimizer_parity.c - every optimizer against PyTorch's and bitsandbytes': weights and state of a
 * few parameters after twelve steps.
 *
 * tools/optimizer-reference made the numbers, in f64, and has the same formula for weights and gradients. How
 * far ours may be apart from them is stated below: numbers of a tensor by its norm, and the sum of n of them
 * by sqrt(n) times that.
 */
#include "optimizer_state.h"
#include "rt/cpu/update.h"
#include "rt/cpu/cpu_dynamic8.h"
#include "rt/dynamic8.h"
#include "rt/optimizer.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, SAMPLES = 5, BLOCK = 256 };
enum { COUNT, SUM, NORM, FIRST, NUMBERS = FIRST + SAMPLES, MOST_LINES = 128 };

static const struct parameter {
    const char *name;
    int64_t rows, columns;
} parameters[] = {
    {"matrix", 48, 96}, {"tall", 300, 17}, {"small", 31, 20}, {"vector", 1, 5000}, {"bias", 1, 700}};

/* 2^-24 is 6e-8. Of codes, one in thousands is another because its number lies halfway between two. (Seen:
 * 2e-7 and, with codes, 6.5e-6; PyTorch in f32: 1.6e-7 and 5.7e-6.) */
static const struct {
    const char *optimizer;
    double bound;
} bounds[] = {{"adamw", 5e-7}, {"adamw8", 2e-5}, {"adafactor", 5e-7}, {"sgd", 5e-7}};

/* ---- what they say */

static struct line {
    char optimizer[16], what[32], name[16];
    double numbers[NUMBERS];
} lines[MOST_LINES];
static int line_count;

static int load(void **state)
{
    (void)state;
    FILE *in = fopen("tests/fixtures/optimizer-reference.txt", "r");
    if (!in)
        return -1;
    char text[512];
    while (fgets(text, sizeof text, in) && line_count < MOST_LINES) {
        struct line *l = &lines[line_count++];
        int at = 0;
        if (sscanf(text, "%15s %31s %15s%n", l->optimizer, l->what, l->name, &at) != 3)
            return -1;
        char *next = text + at;
        for (int i = 0; i < NUMBERS; i++)
            l->numbers[i] = strtod(next, &next);
    }
    fclose(in);
    return 0;
}

static const double *numbers_of(const char *optimizer, const char *what, const char *name)
{
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].optimizer, optimizer) && !strcmp(lines[i].what, what) &&
            !strcmp(lines[i].name, name))
            return lines[i].numbers;
    fail_msg("there is no '%s' of '%s' by %s in the file", what, name, optimizer);
    return NULL;
}

static void near_by(const struct line *of, double ours, double theirs, double by, double bound)
{
    if (!(fabs(ours - theirs) <= bound * by))
        fail_msg("%s: %s of '%s': %.9g is not %.9g: off by %g", of->optimizer, of->what, of->name, ours,
                 theirs, fabs(ours - theirs) / by);
}

static void compare(const char *optimizer, const char *what, const char *name, const double *ours,
                    int64_t count, double bound)
{
    const double *theirs = numbers_of(optimizer, what, name);
    struct line of = {0};
    double sum = 0, squares = 0;
    snprintf(of.optimizer, sizeof of.optimizer, "%s", optimizer);
    snprintf(of.what, sizeof of.what, "%s", what);
    snprintf(of.name, sizeof of.name, "%s", name);
    for (int64_t i = 0; i < count; i++) {
        sum += ours[i];
        squares += ours[i] * ours[i];
    }
    assert_int_equal(count, theirs[COUNT]);
    near_by(&of, sum, theirs[SUM], theirs[NORM], bound * sqrt((double)count));
    near_by(&of, sqrt(squares), theirs[NORM], theirs[NORM], bound);
    for (int i = 0; i < SAMPLES; i++)
        near_by(&of, ours[(2 * i + 1) * count / (2 * SAMPLES)], theirs[FIRST + i], theirs[NORM], bound);
}

/* ---- the same here */

static uint32_t hash(const char *name, int64_t index)
{
    uint32_t h = 2166136261U;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619U;
    h = (h + (uint32_t)index) * 2654435761U;
    h = (h ^ h >> 15) * 2246822519U;
    return h ^ h >> 13;
}

static void make_weight(const char *name, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = ((float)(hash(name, i) >> 19) / 8192 - 0.5F) / 2;
}

static void make_gradient(const char *name, int step, float *to, int64_t count)
{
    char full[32];
    snprintf(full, sizeof full, "%s.%d", name, step);
    for (int64_t i = 0; i < count; i++) {
        uint32_t h = hash(full, i);
        to[i] = h % 64 ? ldexpf((float)(h >> 19) / 8192 - 0.5F, -(int)(h % 64 / 4)) : 0;
    }
}

static void *zeros(size_t bytes)
{
    void *made = aligned_alloc(TIDE_ALIGN, tide_aligned(bytes + 1));
    assert_non_null(made);
    return memset(made, 0, tide_aligned(bytes + 1));
}

/* A part's numbers; those in codes are decoded. */
static void numbers_of_part(const struct tide_trained *t, const struct tide_state_part *parts, int part,
                            double *to)
{
    for (int64_t i = 0; i < parts[part].count; i++) {
        if (parts[part].dtype == TIDE_F32)
            to[i] = ((const float *)t->parts[part])[i];
        else /* their largest magnitudes come two parts later */
            to[i] = tide_dynamic8_number(((const uint8_t *)t->parts[part])[i], part == 0) *
                    ((const float *)t->parts[part + 2])[i / BLOCK];
    }
}

static void parameter_agrees(const struct tide_optimizer *optimizer, const struct parameter *p, double bound)
{
    struct tide_state_part parts[TIDE_STATE_PARTS];
    struct tide_trained t = {.rows = p->rows, .columns = p->columns, .dtype = TIDE_F32};
    int64_t count = p->rows * p->columns;
    float *weight = zeros((size_t)count * sizeof *weight),
          *gradient = zeros((size_t)count * sizeof *gradient);
    double *numbers = zeros((size_t)count * sizeof *numbers);
    void *state = zeros(bytes_of_state(optimizer, p->rows, p->columns));
    void *scratch = zeros(tide_optimizer_scratch(optimizer, p->rows, p->columns));
    t.weight = weight;
    t.gradient = gradient;
    place_state(optimizer, state, &t);
    make_weight(p->name, weight, count);
    for (int step = 1; step <= STEPS; step++) {
        struct tide_optimizer_step s = {.rate = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-6F};
        s.decay = 0.1F;
        s.scale = 1;
        s.step = step;
        struct tide_factors f = tide_optimizer_factors(&s);
        make_gradient(p->name, step, gradient, count);
        tide_optimizer_update(optimizer, &t, &f, scratch);
    }
    for (int64_t i = 0; i < count; i++)
        numbers[i] = weight[i];
    compare(optimizer->name, "weight", p->name, numbers, count, bound);
    int part_count = tide_optimizer_parts(optimizer, p->rows, p->columns, parts);
    for (int i = 0; i < part_count; i++)
        if (parts[i].name) {
            numbers_of_part(&t, parts, i, numbers);
            compare(optimizer->name, parts[i].name, p->name, numbers, parts[i].count, bound);
        }
    free(weight);
    free(gradient);
    free(numbers);
    free(state);
    free(scratch);
}

static void every_optimizer_is_the_published_one(void **state)
{
    (void)state;
    for (int k = 0; tide_optimizers[k]; k++) {
        double bound = 0;
        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
            if (!strcmp(bounds[i].optimizer, tide_optimizers[k]->name))
                bound = bounds[i].bound;
        for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
            parameter_agrees(tide_optimizers[k], &parameters[i], bound);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_is_the_published_one),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
