#include "rt/cpu/matmul.h"
#include "rt/cpu/few.h"
#include "rt/cpu/tile_products.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tide_product tide_product(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                                 enum tide_dtype from, enum tide_dtype to)
{
    struct tide_product p = {.m = m,
                             .n = n,
                             .k = k,
                             .c_stride = n,
                             .a_transposed = a_transposed,
                             .b_transposed = b_transposed,
                             .from = from,
                             .to = to};
    tide_product_stored(&p, from, from);
    return p;
}

static int64_t stride_of(int64_t columns, enum tide_dtype dtype)
{
    return dtype == TIDE_I8 ? (int64_t)tide_row_bytes(dtype, columns) : columns;
}

void tide_product_stored(struct tide_product *p, enum tide_dtype a_from, enum tide_dtype b_from)
{
    p->a_from = a_from;
    p->b_from = b_from;
    p->a_stride = stride_of(p->a_transposed ? p->m : p->k, a_from);
    p->b_stride = stride_of(p->b_transposed ? p->k : p->n, b_from);
}

const char *tide_matmul_name(enum tide_dtype from)
{
    return tide_tile_kind(from)->name;
}

size_t tide_matmul_scratch(const struct tide_product *product)
{
    const struct tide_tile_kind *few = tide_tile_kind_of_few(product->from, product->b_transposed);
    return tide_few_fits(few, product) ? tide_few_scratch(few, product)
                                       : tide_tiles_scratch(tide_tile_kind(product->from), product);
}

void tide_matmul(const struct tide_product *product, const struct tide_operands *operands, void *scratch)
{
    const struct tide_tile_kind *few = tide_tile_kind_of_few(product->from, product->b_transposed);
    if (tide_few_fits(few, product))
        tide_few_multiply(few, product, operands, scratch);
    else
        tide_tiles_multiply(tide_tile_kind(product->from), product, operands, scratch);
}

/* ---- the ceiling that a run is compared with */

enum { SMALL_SIDE = 416, SIDE = 768, TRIES = 4 };
enum { LONG = 10 * 1000 * 1000 }; /* ns for the small one; beyond this the large one is not tried */

/* Returns the shortest time of a product of square matrices; -1: it cannot be measured. */
static int64_t least_ns(enum tide_dtype dtype, int64_t side, int tries)
{
    struct tide_product product = tide_product(side, side, side, false, false, dtype, dtype);
    size_t matrix = tide_aligned((size_t)(side * side) * sizeof(float));
    size_t bytes = 3 * matrix + tide_aligned(tide_matmul_scratch(&product));
    char *room = aligned_alloc(TIDE_ALIGN, bytes);
    if (!room)
        return -1;
    memset(room, 0, bytes);
    struct tide_operands operands = {.a = room, .b = room + matrix, .c = room + 2 * matrix};
    int64_t least = INT64_MAX;
    for (int i = 0; i < tries; i++) {
        int64_t begin = tide_clock_ns();
        tide_matmul(&product, &operands, room + 3 * matrix);
        int64_t took = tide_clock_ns() - begin;
        least = took < least ? took : least;
    }
    free(room);
    return least;
}

static double rate_of(double side, int64_t ns)
{
    return ns > 0 ? 2.0 * side * side * side / ((double)ns / TIDE_NS_PER_S) : NAN;
}

double tide_matmul_peak(enum tide_dtype dtype)
{
    int64_t ns = least_ns(dtype, SMALL_SIDE, 1);
    if (ns < 0 || ns > LONG)
        return rate_of(SMALL_SIDE, ns);
    return rate_of(SIDE, least_ns(dtype, SIDE, TRIES));
}
