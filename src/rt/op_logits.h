/*
 * op_logits.h - the operands of logits, for their meaning and their kernel.
 */
#ifndef TIDE_OP_LOGITS_H
#define TIDE_OP_LOGITS_H

#include "rt/op.h"

enum { X, TABLE };

#endif
