/*
 * optimizer_adamw.h - the parts of AdamW's state, for the reference and the kernels.
 */
#ifndef TIDE_OPTIMIZER_ADAMW_H
#define TIDE_OPTIMIZER_ADAMW_H

#include "rt/optimizer.h"

enum { EXP_AVG, EXP_AVG_SQ, PARTS };

#endif
