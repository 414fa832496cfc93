#include "rt/cpu/peak.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_SIDE = 416, SIDE = 768, TRIES = 4 };
enum { LONG = 10 * 1000 * 1000 }; /* ns for the small one; beyond this the large one is not tried */

/* Returns the shortest time of a product of square matrices; -1: it cannot be measured. */
static int64_t least_ns(const struct tide_matmuls *matmuls, enum tide_dtype dtype, int64_t side, int tries)
{
    struct tide_product product = tide_product(side, side, side, false, false, dtype, dtype);
    size_t matrix = tide_aligned((size_t)(side * side) * sizeof(float));
    if (matmuls->is_reference)
        return -1;
    size_t bytes = 3 * matrix + tide_aligned(tide_matmuls_scratch(matmuls, &product));
    char *room = aligned_alloc(TIDE_ALIGN, bytes);
    if (!room)
        return -1;
    memset(room, 0, bytes);
    int64_t least = INT64_MAX;
    for (int i = 0; i < tries; i++) {
        int64_t begin = tide_clock_ns();
        tide_matmul(matmuls, &product, room, room + matrix, NULL, room + 2 * matrix, room + 3 * matrix);
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

double tide_peak(const struct tide_matmuls *matmuls, enum tide_dtype dtype)
{
    int64_t ns = least_ns(matmuls, dtype, SMALL_SIDE, 1);
    if (ns < 0 || ns > LONG)
        return rate_of(SMALL_SIDE, ns);
    return rate_of(SIDE, least_ns(matmuls, dtype, SIDE, TRIES));
}
