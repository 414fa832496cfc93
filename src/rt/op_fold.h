/*
 * op_fold.h - the operands of a fold, for its meaning and its kernels.
 */
#ifndef TIDE_OP_FOLD_H
#define TIDE_OP_FOLD_H

#include "rt/op.h"

enum { WEIGHT, SCALE, SHIFT, MEAN, VARIANCE };
enum { FOLDED, BIAS };

#endif
