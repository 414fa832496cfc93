#include "rt/cpu/rows.h"
#include "rt/cpu/inner_loops.h"
#include "rt/cpu/threads.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

TIDE_KERNEL(void, widen, (float *restrict to, const tide_bf16 *restrict from, int64_t count),
            (to, from, count))
{
    for (int64_t i = 0; i < count; i++)
        to[i] = tide_from_bf16(from[i]);
}

TIDE_KERNEL(void, narrow, (tide_bf16 *restrict to, const float *restrict from, int64_t count),
            (to, from, count))
{
    for (int64_t i = 0; i < count; i++)
        to[i] = tide_to_bf16(from[i]);
}

/* Adding it rounds a number of up to 2^22 in magnitude to a whole one, which is then in the last bits. */
static const float rounding = 12582912.0F;

/* Quantizes a block and returns its scale. */
TIDE_INLINE float quantize_block(int8_t *restrict to, const float *restrict from, int64_t count)
{
    const uint32_t infinity = 0x7f800000;
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t magnitude = tide_float_bits(from[i]) & 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    bool is_finite = largest < infinity;
    float scale = tide_bits_float(largest) / 127, divisor = is_finite && scale > 0 ? scale : INFINITY;
    for (int64_t i = 0; i < count; i++) {
        float multiple = is_finite ? from[i] / divisor : 0;
        multiple = multiple < 127 ? multiple : 127; /* a tiny scale is rounded itself: may be more */
        multiple = multiple > -127 ? multiple : -127;
        to[i] = (int8_t)(tide_float_bits(multiple + rounding) - tide_float_bits(rounding));
    }
    return is_finite ? scale : NAN;
}

/* Quantizes numbers of a row, from the start of a block on. */
TIDE_KERNEL(void, quantize,
            (int8_t *restrict to, float *restrict scales, const float *restrict from, int64_t count),
            (to, scales, from, count))
{
    int64_t at = 0;
    for (; at + TIDE_BLOCK <= count; at += TIDE_BLOCK)
        scales[at / TIDE_BLOCK] = quantize_block(to + at, from + at, TIDE_BLOCK);
    if (at < count)
        scales[at / TIDE_BLOCK] = quantize_block(to + at, from + at, count - at);
}

TIDE_KERNEL(void, expand,
            (float *restrict to, const int8_t *restrict from, const float *restrict scales, int64_t count),
            (to, from, scales, count))
{
    for (int64_t at = 0; at < count; at += TIDE_BLOCK) {
        int64_t end = at + TIDE_BLOCK < count ? at + TIDE_BLOCK : count;
        for (int64_t i = at; i < end; i++)
            to[i] = (float)from[i] * scales[at / TIDE_BLOCK];
    }
}

/* bf16 and int8 are converted to each other through f32, this many at a time. */
enum { STRETCH = 8 * TIDE_BLOCK };

static int64_t stretch(int64_t at, int64_t columns)
{
    return columns - at < STRETCH ? columns - at : STRETCH;
}

static void quantize_row(char *to, const void *from, enum tide_dtype from_type, int64_t columns)
{
    size_t scales = tide_row_scales(columns);
    memset(to + columns, 0, scales - (size_t)columns);
    for (int64_t at = 0; at < columns; at += STRETCH) {
        float room[STRETCH];
        int64_t count = stretch(at, columns);
        if (from_type == TIDE_BF16)
            widen(room, (const tide_bf16 *)from + at, count);
        quantize((int8_t *)to + at, (float *)(void *)(to + scales) + at / TIDE_BLOCK,
                 from_type == TIDE_BF16 ? room : (const float *)from + at, count);
    }
}

static void expand_row(void *to, enum tide_dtype to_type, const char *from, int64_t columns)
{
    const float *scales = (const float *)(const void *)(from + tide_row_scales(columns));
    for (int64_t at = 0; at < columns; at += STRETCH) {
        float room[STRETCH];
        int64_t count = stretch(at, columns);
        expand(to_type == TIDE_BF16 ? room : (float *)to + at, (const int8_t *)from + at,
               scales + at / TIDE_BLOCK, count);
        if (to_type == TIDE_BF16)
            narrow((tide_bf16 *)to + at, room, count);
    }
}

void tide_rows_convert_here(void *to, enum tide_dtype to_type, const void *from, enum tide_dtype from_type,
                            int64_t columns)
{
    if (to_type == from_type)
        memcpy(to, from, tide_row_bytes(to_type, columns));
    else if (to_type == TIDE_I8)
        quantize_row(to, from, from_type, columns);
    else if (from_type == TIDE_I8)
        expand_row(to, to_type, from, columns);
    else if (to_type == TIDE_BF16)
        narrow(to, from, columns);
    else
        widen(to, from, columns);
}

/* ---- sums */

struct addition {
    void *to;
    const void *a, *b;
    enum tide_dtype dtype;
};

TIDE_KERNEL(void, add_some, (void *context, int64_t first, int64_t last), (context, first, last))
{
    const struct addition *x = context;
    const float *a = x->a, *b = x->b;
    const tide_bf16 *half_a = x->a, *half_b = x->b;
    float *to = x->to;
    tide_bf16 *half = x->to;
    for (int64_t i = first; x->dtype == TIDE_F32 && i < last; i++)
        to[i] = a[i] + b[i];
    for (int64_t i = first; x->dtype == TIDE_BF16 && i < last; i++)
        half[i] = tide_to_bf16(tide_from_bf16(half_a[i]) + tide_from_bf16(half_b[i]));
}

void tide_rows_add(void *to, const void *a, const void *b, enum tide_dtype dtype, int64_t count)
{
    struct addition x = {to, a, b, dtype};
    tide_parallel(count, 16384, add_some, &x);
}

struct summing {
    float *sums;
    int adds;
    const void *x;
    enum tide_dtype dtype;
    int64_t rows, columns;
};

enum { STRIP = 64 };

TIDE_INLINE void sum_numbers(float *restrict sums, int adds, const void *restrict x, bool is_half,
                             int64_t rows, int64_t stride, int64_t width)
{
    const float *wide = x;
    const tide_bf16 *half = x;
    float total[STRIP] = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++)
            total[j] += is_half ? tide_from_bf16(half[i * stride + j]) : wide[i * stride + j];
    for (int64_t j = 0; j < width; j++)
        sums[j] = adds ? sums[j] + total[j] : total[j];
}

TIDE_KERNEL(void, sum_strip,
            (float *sums, int adds, const void *x, bool is_half, int64_t rows, int64_t stride, int64_t width),
            (sums, adds, x, is_half, rows, stride, width))
{
    if (is_half)
        sum_numbers(sums, adds, x, true, rows, stride, width);
    else
        sum_numbers(sums, adds, x, false, rows, stride, width);
}

static void sum(void *context, int64_t first, int64_t last)
{
    const struct summing *s = context;
    for (int64_t strip = first; strip < last; strip++) {
        int64_t j = strip * STRIP, width = s->columns - j < STRIP ? s->columns - j : STRIP;
        sum_strip(s->sums + j, s->adds, (const char *)s->x + (size_t)j * tide_dtype_bytes(s->dtype),
                  s->dtype == TIDE_BF16, s->rows, s->columns, width);
    }
}

void tide_rows_sum(float *sums, int adds, const void *x, enum tide_dtype dtype, int64_t rows, int64_t columns)
{
    struct summing s = {sums, adds, x, dtype, rows, columns};
    tide_parallel((columns + STRIP - 1) / STRIP, rows * STRIP > 65536 ? 1 : 4, sum, &s);
}

TIDE_KERNEL(float, largest, (const float *x, int64_t count), (x, count))
{
    float lanes[64], most = -INFINITY;
    int64_t j = 0;
    for (int k = 0; k < 64; k++)
        lanes[k] = -INFINITY;
    for (; j + 64 <= count; j += 64)
        for (int k = 0; k < 64; k++)
            lanes[k] = x[j + k] > lanes[k] ? x[j + k] : lanes[k];
    for (; j < count; j++)
        most = x[j] > most ? x[j] : most;
    for (int k = 0; k < 64; k++)
        most = lanes[k] > most ? lanes[k] : most;
    return most;
}

float tide_rows_largest(const float *x, int64_t count)
{
    return largest(x, count);
}
