#include "rt/cpu/kernels.h"
#include "base/check.h"

#define DECLARE(name) extern const struct tide_cpu_kernels tide_cpu_##name;
#define ROW(name)     {&tide_op_of_##name, &tide_cpu_##name},

TIDE_EACH_OP(DECLARE)

static const struct {
    const struct tide_op *op;
    const struct tide_cpu_kernels *kernels;
} table[] = {TIDE_EACH_OP(ROW){NULL, NULL}};

const struct tide_cpu_kernels *tide_cpu_kernels(const struct tide_op *op)
{
    int i = 0;
    while (table[i].op && table[i].op != op)
        i++;
    TIDE_CHECK_TRUE(table[i].op);
    return table[i].kernels;
}

size_t tide_cpu_scratch(const struct tide_need *need)
{
    const struct tide_cpu_kernels *kernels = tide_cpu_kernels(need->node->op);
    return kernels->scratch ? kernels->scratch(need) : 0;
}
