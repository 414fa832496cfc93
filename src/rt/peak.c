#include "rt/peak.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 768, TRIES = 4 };
enum { LONG_ENOUGH = 50 * 1000 * 1000 }; /* ns, after which no other try begins */

static double best_of(struct tide_matmuls *matmuls, const struct tide_product *product, char *room,
                      size_t matrix)
{
    int64_t best = INT64_MAX, start = tide_clock_ns(), begin = start;
    for (int i = 0; i < TRIES && begin - start < LONG_ENOUGH; i++) {
        tide_matmul(matmuls, product, room, room + matrix, NULL, room + 2 * matrix, room + 3 * matrix);
        int64_t end = tide_clock_ns();
        best = end - begin < best ? end - begin : best;
        begin = end;
    }
    return 2.0 * SIDE * SIDE * SIDE / ((double)best / TIDE_NS_PER_S);
}

double tide_peak(struct tide_matmuls *matmuls, enum tide_dtype dtype)
{
    struct tide_product product = tide_product(SIDE, SIDE, SIDE, false, false, dtype, dtype);
    size_t matrix = tide_aligned((size_t)SIDE * SIDE * sizeof(float));
    if (!tide_matmuls_fast(matmuls) || tide_matmuls_want(matmuls, &product, NULL))
        return NAN;
    size_t bytes = 3 * matrix + tide_aligned(tide_matmuls_scratch(matmuls, &product));
    char *room = aligned_alloc(TIDE_ALIGN, bytes);
    if (!room)
        return NAN;
    memset(room, 0, bytes);
    double rate = best_of(matmuls, &product, room, matrix);
    free(room);
    return rate;
}
