/*
 * op_batchnorm.h - the operands of a batch norm, for its meaning and its kernels.
 */
#ifndef TIDE_OP_BATCHNORM_H
#define TIDE_OP_BATCHNORM_H

#include "rt/op.h"

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VARIANCE };
enum { Y, MEAN, INVERSE };

/* What running statistics take of each batch. */
static const double tide_batchnorm_share = 0.1;

#endif
