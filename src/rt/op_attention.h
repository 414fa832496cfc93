/*
 * op_attention.h - the outputs of attention, for its meaning and its kernels.
 */
#ifndef TIDE_OP_ATTENTION_H
#define TIDE_OP_ATTENTION_H

#include "rt/op.h"

enum { Y, LOG_SUM }; /* outputs */

#endif
