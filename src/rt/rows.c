#include "rt/rows.h"
#include "rt/kernel.h"
#include "rt/threads.h"

#include <string.h>

TIDE_KERNEL(void, widen, (float *restrict to, const tide_bf16 *restrict from, int64_t count),
            (to, from, count))
{
    for (int64_t i = 0; i < count; i++)
        to[i] = tide_bits_float((uint32_t)from[i] << 16);
}

TIDE_KERNEL(void, narrow, (tide_bf16 *restrict to, const float *restrict from, int64_t count),
            (to, from, count))
{
    for (int64_t i = 0; i < count; i++)
        to[i] = tide_narrow(from[i]);
}

void tide_rows_convert_here(void *to, enum tide_dtype to_type, const void *from, enum tide_dtype from_type,
                            int64_t count)
{
    if (to_type == from_type)
        memcpy(to, from, (size_t)count * tide_dtype_bytes(to_type));
    else if (to_type == TIDE_BF16)
        narrow(to, from, count);
    else
        widen(to, from, count);
}

struct conversion {
    char *to;
    const char *from;
    enum tide_dtype to_type, from_type;
};

static void convert(void *context, int64_t first, int64_t last, int thread)
{
    const struct conversion *c = context;
    (void)thread;
    tide_rows_convert_here(c->to + (size_t)first * tide_dtype_bytes(c->to_type), c->to_type,
                           c->from + (size_t)first * tide_dtype_bytes(c->from_type), c->from_type,
                           last - first);
}

void tide_rows_convert(void *to, enum tide_dtype to_type, const void *from, enum tide_dtype from_type,
                       int64_t count)
{
    struct conversion c = {to, from, to_type, from_type};
    tide_parallel(count, 16384, convert, &c);
}

struct summing {
    float *sums;
    int adds;
    const void *x;
    enum tide_dtype dtype;
    int64_t rows, columns;
};

enum { STRIP = 64 };

TIDE_KERNEL(void, sum_strip,
            (float *restrict sums, int adds, const float *restrict x, int64_t rows, int64_t stride,
             int64_t width),
            (sums, adds, x, rows, stride, width))
{
    float total[STRIP] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++)
            total[j] += x[i * stride + j];
    for (int64_t j = 0; j < width; j++)
        sums[j] = adds ? sums[j] + total[j] : total[j];
}

TIDE_KERNEL(void, sum_strip_bf16,
            (float *restrict sums, int adds, const tide_bf16 *restrict x, int64_t rows, int64_t stride,
             int64_t width),
            (sums, adds, x, rows, stride, width))
{
    float total[STRIP] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++)
            total[j] += tide_bits_float((uint32_t)x[i * stride + j] << 16);
    for (int64_t j = 0; j < width; j++)
        sums[j] = adds ? sums[j] + total[j] : total[j];
}

static void sum(void *context, int64_t first, int64_t last, int thread)
{
    const struct summing *s = context;
    (void)thread;
    for (int64_t strip = first; strip < last; strip++) {
        int64_t j = strip * STRIP, width = s->columns - j < STRIP ? s->columns - j : STRIP;
        if (s->dtype == TIDE_BF16)
            sum_strip_bf16(s->sums + j, s->adds, (const tide_bf16 *)s->x + j, s->rows, s->columns, width);
        else
            sum_strip(s->sums + j, s->adds, (const float *)s->x + j, s->rows, s->columns, width);
    }
}

void tide_rows_sum(float *sums, int adds, const void *x, enum tide_dtype dtype, int64_t rows, int64_t columns)
{
    struct summing s = {sums, adds, x, dtype, rows, columns};
    tide_parallel((columns + STRIP - 1) / STRIP, rows * STRIP > 65536 ? 1 : 4, sum, &s);
}
