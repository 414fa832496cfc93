/*
 * op_norm.h - the operands of layer norm and batch norm, for the references and the kernels.
 */
#ifndef TIDE_OP_NORM_H
#define TIDE_OP_NORM_H

#include "rt/op.h"

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VARIANCE }; /* the running ones: batch norm only */
enum { Y, MEAN, INVERSE };

/* The weight of each batch in the running statistics. */
static const double tide_batchnorm_share = 0.1;

#endif
