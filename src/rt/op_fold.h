/*
 * op_fold.h - the operands of a fold, for the reference and the kernels.
 */
#ifndef TIDE_OP_FOLD_H
#define TIDE_OP_FOLD_H

#include "rt/op.h"
#include "rt/winograd.h"

enum { WEIGHT, SCALE, SHIFT, MEAN, VARIANCE };
enum { FOLDED, BIAS };
enum { BY_POINTS }; /* number of the node: 1 to make the points of a 3x3 convolution (winograd.h) */

#endif
