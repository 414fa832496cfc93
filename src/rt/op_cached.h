/*
 * op_cached.h - the operands of attention over a KV cache, for the reference and the kernels.
 */
#ifndef TIDE_OP_CACHED_H
#define TIDE_OP_CACHED_H

#include "rt/op.h"

enum { QKV, KEYS, VALUES, SLOTS, POSITIONS };

#endif
