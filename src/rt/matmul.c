#include "rt/matmul.h"
#include "rt/tiles.h"

#include <stdlib.h>

struct tide_matmuls {
    bool is_reference;
    struct tide_due *due;
};

struct tide_product tide_product(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                                 enum tide_dtype from, enum tide_dtype to)
{
    return (struct tide_product){.m = m,
                                 .n = n,
                                 .k = k,
                                 .a_stride = a_transposed ? m : k,
                                 .b_stride = b_transposed ? k : n,
                                 .c_stride = n,
                                 .a_transposed = a_transposed,
                                 .b_transposed = b_transposed,
                                 .from = from,
                                 .to = to,
                                 .a_from = from,
                                 .b_from = from};
}

int tide_matmuls_new(bool is_reference, struct tide_matmuls **ret_matmuls, struct tide_err *err)
{
    struct tide_matmuls *m = calloc(1, sizeof *m);
    if (!m)
        return tide_err_set(err, "out of memory");
    m->is_reference = is_reference;
    *ret_matmuls = m;
    return 0;
}

void tide_matmuls_free(struct tide_matmuls *m)
{
    free(m);
}

bool tide_matmuls_are_reference(const struct tide_matmuls *m)
{
    return m->is_reference;
}

const char *tide_matmuls_name(const struct tide_matmuls *m, enum tide_dtype from)
{
    return m->is_reference ? "plain C" : tide_tile_kind(from)->name;
}

size_t tide_matmuls_scratch(const struct tide_matmuls *m, const struct tide_product *product)
{
    return m->is_reference ? 0 : tide_tiles_scratch(tide_tile_kind(product->from), product);
}

void tide_matmuls_meanwhile(struct tide_matmuls *m, struct tide_due *due)
{
    m->due = due;
}

struct tide_due *tide_matmuls_due(const struct tide_matmuls *m)
{
    return m->due;
}

static double as(enum tide_dtype dtype, double number)
{
    return dtype == TIDE_BF16 ? tide_from_bf16(tide_to_bf16((float)number)) : number;
}

static void multiply_plainly(const struct tide_product *p, const struct tide_operands *o)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->has_bias ? o->bias[j] : 0;
            for (int64_t k = 0; k < p->k; k++) {
                int64_t a_at = p->a_transposed ? k * p->a_stride + i : i * p->a_stride + k,
                        b_at = p->b_transposed ? j * p->b_stride + k : k * p->b_stride + j;
                sum += as(p->from, tide_number(o->a, p->a_from, a_at)) *
                       as(p->from, tide_number(o->b, p->b_from, b_at));
            }
            int64_t at = i * p->c_stride + j;
            if (p->adds)
                sum += tide_number(o->c, p->to, at);
            tide_number_set(o->c, p->to, at, sum);
        }
}

void tide_matmul(struct tide_matmuls *m, const struct tide_product *product, const void *a, const void *b,
                 const float *bias, void *c, void *scratch)
{
    struct tide_operands operands = {a, b, bias, c};
    if (m->is_reference)
        multiply_plainly(product, &operands);
    else
        tide_tiles_multiply(tide_tile_kind(product->from), product, &operands, scratch, m->due);
}
