/*
 * optimizer_adamw8.h - the blocks and the parts of its state, for its meaning and its kernels.
 */
#ifndef TIDE_OPTIMIZER_ADAMW8_H
#define TIDE_OPTIMIZER_ADAMW8_H

#include "rt/optimizer.h"

enum { BLOCK = 256, LEAST = 4096 };
enum { STATE1, STATE2, ABSMAX1, ABSMAX2, PARTS };

#endif
