/*
 * parity.h - what the tests have in common that compare a small GPT-2 with PyTorch's numbers: the model of
 * tools/torch-reference, with its formula for weights, and the lines that it and tools/grpo-reference write.
 *
 * How far a tensor may be apart is said by its norm, and of the sum of n of its numbers by sqrt(n) times
 * that, which is what errors of that norm can add up to.
 */
#ifndef TIDE_TEST_PARITY_H
#define TIDE_TEST_PARITY_H

#include "train/gpt.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 61, BLOCKS = 3, SAMPLES = 5 };
enum { COUNT, SUM, NORM, FIRST, NUMBERS = FIRST + SAMPLES, MOST_LINES = 512 };

static const struct tide_gpt_config parity_config = {.vocabulary = VOCABULARY,
                                                     .positions = 32,
                                                     .channels = 36,
                                                     .heads = 3,
                                                     .blocks = BLOCKS,
                                                     .hidden = 100,
                                                     .epsilon = 1e-5F};

static struct line {
    char what[16], name[TIDE_TENSOR_NAME];
    double numbers[NUMBERS];
} lines[MOST_LINES];
static int line_count;

static inline int load(const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return -1;
    char text[512];
    while (fgets(text, sizeof text, in) && line_count < MOST_LINES) {
        struct line *l = &lines[line_count++];
        int at = 0;
        if (sscanf(text, "%15s %63s%n", l->what, l->name, &at) != 2)
            return -1;
        char *next = text + at;
        for (int i = 0; i < NUMBERS; i++)
            l->numbers[i] = strtod(next, &next);
    }
    fclose(in);
    return 0;
}

static inline const double *numbers_of(const char *what, const char *name)
{
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].what, what) && !strcmp(lines[i].name, name))
            return lines[i].numbers;
    fail_msg("there is no '%s' of '%s' in the file", what, name);
    return NULL;
}

static inline void near_by(const char *what, const char *name, double ours, double theirs, double by,
                           double bound)
{
    if (!(fabs(ours - theirs) <= bound * by))
        fail_msg("%s of '%s': %.9g is not PyTorch's %.9g: off by %g", what, name, ours, theirs,
                 fabs(ours - theirs) / by);
}

static inline void compare_tensor(const char *what, const char *name, const float *ours, int64_t count,
                                  double bound)
{
    const double *theirs = numbers_of(what, name);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += ours[i];
        squares += (double)ours[i] * ours[i];
    }
    assert_int_equal(count, theirs[COUNT]);
    near_by(what, name, sum, theirs[SUM], theirs[NORM], bound * sqrt((double)count));
    near_by(what, name, sqrt(squares), theirs[NORM], theirs[NORM], bound);
    for (int i = 0; i < SAMPLES; i++)
        near_by(what, name, ours[(2 * i + 1) * count / (2 * SAMPLES)], theirs[FIRST + i], theirs[NORM],
                bound);
}

/* As the tools have it: of a name (FNV-1a) and an index. */
static inline uint32_t hash(const char *name, int64_t index)
{
    uint32_t h = 2166136261U;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619U;
    h = (h + (uint32_t)index) * 2654435761U;
    h = (h ^ h >> 15) * 2246822519U;
    return h ^ h >> 13;
}

/* From -1/4 to 1/4, around 1 for the scales of norms. */
static inline float weight_of(const char *name, int64_t index)
{
    float around = strstr(name, "ln_") && strstr(name, "weight") ? 1 : 0;
    return around + ((float)(hash(name, index) >> 19) / 8192 - 0.5F) / 2;
}

static inline void ok(int status, const struct tide_err *err)
{
    if (status)
        fail_msg("%s", err->text);
}

#endif
