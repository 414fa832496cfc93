/*
 * op_norm.h - the operands of a norm, for its meaning and its kernels.
 */
#ifndef TIDE_OP_NORM_H
#define TIDE_OP_NORM_H

#include "rt/op.h"

enum { X, WEIGHT, BIAS };
enum { Y, MEAN, INVERSE };

#endif
