#include "rt/op.h"

#define ROW(name) &tide_op_of_##name,

const struct tide_op *const tide_ops[] = {TIDE_EACH_OP(ROW) NULL};
