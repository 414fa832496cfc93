/*
 * optimizer_adafactor.h - Adafactor's constants and the parts of its state, for the reference and the
 * kernels.
 */
#ifndef TIDE_OPTIMIZER_ADAFACTOR_H
#define TIDE_OPTIMIZER_ADAFACTOR_H

#include "rt/optimizer.h"

#include <math.h>

/* PyTorch's defaults for f32. They apply to weights of any type, because updates are computed in f32. */
static const float least_root = 0x1p-23F, least_weight = 1e-3F;
static const double beta2_decay = -0.8, threshold = 1.0;

/* The last part, not saved: what update() needs to know of the whole parameter. */
struct whole {
    float length;  /* the step's length; multiplies a step in units of the second moment's root */
    float inverse; /* 1 / the mean of all squares, from the rows */
    float mixing;  /* the weight of this step's squares */
};
enum { WHOLE_NUMBERS = 4 };
enum { SQUARES, VECTOR_PARTS = 2, BY_ROW = 0, BY_COLUMN, MATRIX_PARTS = 3 };

static inline bool has_one_row(const struct tide_trained *t)
{
    return t->rows == 1;
}

static inline struct whole *whole_of(const struct tide_trained *t)
{
    return t->parts[(has_one_row(t) ? VECTOR_PARTS : MATRIX_PARTS) - 1];
}

static inline float mixed(float was, double square, double mixing)
{
    return (float)(was + mixing * (square - was));
}

/* rate: the learning rate, limited to 1 / sqrt(step). */
static inline double length_of(double weights, double step, double count, double rate)
{
    double size = fmax((double)least_weight, sqrt(weights / count));
    return size * rate / fmax(1.0, sqrt(step / count) / threshold);
}

#endif
