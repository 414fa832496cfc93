/*
 * op_gate.h - the operands of a gate, for its meaning and its kernels.
 */
#ifndef TIDE_OP_GATE_H
#define TIDE_OP_GATE_H

#include "rt/op.h"

enum { X, GATE };

#endif
