#include "rt/cpu/kernels.h"
#include "base/check.h"

extern const struct tide_cpu_kernels tide_cpu_embed, tide_cpu_norm, tide_cpu_linear, tide_cpu_gelu,
    tide_cpu_attention, tide_cpu_add, tide_cpu_head, tide_cpu_cached, tide_cpu_logits, tide_cpu_scale,
    tide_cpu_conv, tide_cpu_depthwise, tide_cpu_relu, tide_cpu_tanh, tide_cpu_pool, tide_cpu_gate,
    tide_cpu_batchnorm, tide_cpu_fold, tide_cpu_soft, tide_cpu_squared, tide_cpu_winograd;

static const struct tide_cpu_kernels *const table[] = {
    &tide_cpu_embed,     &tide_cpu_norm,
    &tide_cpu_linear,    &tide_cpu_gelu,
    &tide_cpu_attention, &tide_cpu_add,
    &tide_cpu_head,      &tide_cpu_cached,
    &tide_cpu_logits,    &tide_cpu_scale,
    &tide_cpu_conv,      &tide_cpu_depthwise,
    &tide_cpu_relu,      &tide_cpu_tanh,
    &tide_cpu_pool,      &tide_cpu_gate,
    &tide_cpu_batchnorm, &tide_cpu_fold,
    &tide_cpu_soft,      &tide_cpu_squared,
    &tide_cpu_winograd,  NULL,
};

const struct tide_cpu_kernels *tide_cpu_kernels(const struct tide_op *op)
{
    int i = 0;
    while (table[i] && table[i]->op != op)
        i++;
    TIDE_CHECK_TRUE(table[i]);
    return table[i];
}

size_t tide_cpu_scratch(const struct tide_matmuls *matmuls, const struct tide_graph *graph,
                        const struct tide_node *node, enum tide_direction direction, int quarters)
{
    const struct tide_cpu_kernels *kernels = tide_cpu_kernels(node->op);
    if (direction == TIDE_BACKWARD && kernels->scratch_recomputing)
        return kernels->scratch_recomputing(matmuls, graph, node, quarters);
    return kernels->scratch ? kernels->scratch(matmuls, graph, node, direction) : 0;
}
