#include "rt/op.h"

const struct tide_op *const tide_ops[] = {
    &tide_op_of_embed,     &tide_op_of_norm,
    &tide_op_of_linear,    &tide_op_of_gelu,
    &tide_op_of_attention, &tide_op_of_add,
    &tide_op_of_head,      &tide_op_of_cached,
    &tide_op_of_logits,    &tide_op_of_scale,
    &tide_op_of_conv,      &tide_op_of_depthwise,
    &tide_op_of_relu,      &tide_op_of_tanh,
    &tide_op_of_pool,      &tide_op_of_gate,
    &tide_op_of_batchnorm, &tide_op_of_fold,
    &tide_op_of_soft,      &tide_op_of_squared,
    &tide_op_of_winograd,  NULL,
};
