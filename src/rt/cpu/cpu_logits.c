/*
 * cpu_logits.c - logits on processors.
 */
#include "rt/cpu/kernels.h"
#include "rt/op_head.h"

static struct tide_product product_of(const struct tide_graph *graph, const struct tide_node *node)
{
    const struct tide_tensor *x = &graph->tensors[node->in[X]], *table = &graph->tensors[node->in[TABLE]];
    struct tide_product p =
        tide_product(tide_tensor_rows(x), table->dims[0], table->dims[1], false, true, x->dtype, TIDE_F32);
    tide_product_stored(&p, x->dtype, table->dtype);
    return p;
}

static size_t scratch(const struct tide_need *n)
{
    struct tide_product p = product_of(n->graph, n->node);
    return tide_matmuls_scratch(n->matmuls, &p);
}

static void forward(const struct tide_call *call)
{
    struct tide_product p = product_of(call->graph, call->node);
    tide_matmul(call->matmuls, &p, call->in[X], call->in[TABLE], NULL, call->out[0], call->scratch);
}

const struct tide_cpu_kernels tide_cpu_logits = {
    .scratch = scratch,
    .forward = forward,
};
