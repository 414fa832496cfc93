#include "rt/cpu/update.h"
#include "base/check.h"
#include "base/whole.h"
#include "rt/cpu/rounding.h"
#include "rt/cpu/threads.h"

/* ---- by optimizer */

static const struct tide_cpu_optimizer *const table[] = {&tide_cpu_adamw, &tide_cpu_adamw8,
                                                         &tide_cpu_adafactor, &tide_cpu_sgd, NULL};

const struct tide_cpu_optimizer *tide_cpu_optimizer(const struct tide_optimizer *optimizer)
{
    int i = 0;
    while (table[i] && table[i]->optimizer != optimizer)
        i++;
    TIDE_CHECK_TRUE(table[i]);
    return table[i];
}

size_t tide_optimizer_scratch(const struct tide_optimizer *optimizer, int64_t rows, int64_t columns)
{
    const struct tide_cpu_optimizer *o = tide_cpu_optimizer(optimizer);
    return o->scratch ? o->scratch(rows, columns) : 0;
}

struct updating {
    const struct tide_cpu_optimizer *optimizer;
    const struct tide_trained *trained;
    const struct tide_factors *factors;
    int64_t count;
};

static void update_chunks(void *context, int64_t first, int64_t last)
{
    const struct updating *u = context;
    for (int64_t chunk = first; chunk < last; chunk++)
        u->optimizer->update(u->trained, u->factors, chunk,
                             tide_smaller(u->count - chunk * TIDE_CHUNK, TIDE_CHUNK));
}

void tide_optimizer_update(const struct tide_optimizer *optimizer, const struct tide_trained *trained,
                           const struct tide_factors *factors, void *scratch)
{
    enum { LEAST = 16 }; /* chunks that are worth a thread */
    struct updating u = {tide_cpu_optimizer(optimizer), trained, factors, trained->rows * trained->columns};
    if (u.optimizer->measure)
        u.optimizer->measure(trained, factors, scratch);
    tide_parallel(tide_ceiling(u.count, TIDE_CHUNK), LEAST, update_chunks, &u);
}

/* ---- squares */

enum { STRETCH = 1 << 15, GROUP = 256 }; /* GROUP: ranges that are summed before their sums are added up */

TIDE_INLINE double sum_squares(const void *x, enum tide_dtype dtype, int64_t count)
{
    double lanes[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int k = 0; k < 16; k++)
            lanes[k] += tide_number(x, dtype, i + k) * tide_number(x, dtype, i + k);
    for (; i < count; i++)
        sum += tide_number(x, dtype, i) * tide_number(x, dtype, i);
    for (int k = 0; k < 16; k++)
        sum += lanes[k];
    return sum;
}

TIDE_KERNEL(double, squares_of, (const void *x, enum tide_dtype dtype, int64_t count), (x, dtype, count))
{
    return dtype == TIDE_BF16 ? sum_squares(x, TIDE_BF16, count) : sum_squares(x, TIDE_F32, count);
}

double tide_squares(const void *numbers, enum tide_dtype dtype, int64_t count)
{
    return squares_of(numbers, dtype, count);
}

struct squares {
    const char *numbers;
    enum tide_dtype dtype;
    int64_t count;
    double sums[GROUP];
};

static void square_stretches(void *context, int64_t first, int64_t last)
{
    struct squares *s = context;
    for (int64_t i = first; i < last; i++) {
        int64_t at = i * STRETCH, count = s->count - at < STRETCH ? s->count - at : STRETCH;
        s->sums[i] = tide_squares(s->numbers + (size_t)at * tide_dtype_bytes(s->dtype), s->dtype, count);
    }
}

double tide_update_squares(const void *numbers, enum tide_dtype dtype, int64_t count)
{
    double sum = 0;
    for (int64_t at = 0; at < count; at += (int64_t)GROUP * STRETCH) {
        struct squares s = {.numbers = (const char *)numbers + (size_t)at * tide_dtype_bytes(dtype),
                            .dtype = dtype};
        s.count = count - at < (int64_t)GROUP * STRETCH ? count - at : (int64_t)GROUP * STRETCH;
        int64_t stretches = (s.count + STRETCH - 1) / STRETCH;
        tide_parallel(stretches, 1, square_stretches, &s);
        for (int64_t i = 0; i < stretches; i++)
            sum += s.sums[i];
    }
    return sum;
}
