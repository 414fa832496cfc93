/*
 * op_gate.h - the operands of a gate, the first of which is that of a pool, for the reference and the
 * kernels.
 */
#ifndef TIDE_OP_GATE_H
#define TIDE_OP_GATE_H

#include "rt/op.h"

enum { X, GATE };

#endif
