/*
 * optimizer_adamw8.h - the block size and the parts of its state, for the reference and the kernels.
 */
#ifndef TIDE_OPTIMIZER_ADAMW8_H
#define TIDE_OPTIMIZER_ADAMW8_H

#include "rt/optimizer.h"

enum { BLOCK = 256, LEAST = 4096 };
enum { STATE1, STATE2, ABSMAX1, ABSMAX2, PARTS };

#endif
