/*
 * op_norm.h - the operands of a norm, by rows or over a batch, for its meaning and its kernels.
 */
#ifndef TIDE_OP_NORM_H
#define TIDE_OP_NORM_H

#include "rt/op.h"

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VARIANCE }; /* a batch norm has running ones */
enum { Y, MEAN, INVERSE };

/* What running statistics take of each batch. */
static const double tide_batchnorm_share = 0.1;

#endif
